"""The catalogue of remedies by topic, as data. `pdscope.diagnosis.remedies` joins the topics."""
