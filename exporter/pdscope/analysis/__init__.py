"""From windows to signals. Pure: numbers in, numbers out; no I/O, no clock."""
