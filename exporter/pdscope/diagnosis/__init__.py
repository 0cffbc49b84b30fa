"""From signals to a verdict. Pure: no I/O, no clock."""
