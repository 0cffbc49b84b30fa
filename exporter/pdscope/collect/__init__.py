"""Keeps what was scraped for as long as somebody may ask for it."""
