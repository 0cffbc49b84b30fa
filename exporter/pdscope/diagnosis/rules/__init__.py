"""One file per rule: a verdict of the vocabulary, or a finding that stands beside it. Found by discovery."""
