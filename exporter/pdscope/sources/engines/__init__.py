"""One file per engine or router: its series, its oddities and its spellings, as data. Found by discovery."""
