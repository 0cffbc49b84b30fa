"""One file per device source: its series as data. Found by discovery."""
