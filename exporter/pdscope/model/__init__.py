"""Types shared by every layer. Imports nothing of pdscope but `errors`; holds no I/O, no clock."""
