"""HTTP: serves what was rendered. It knows nothing of how that came about."""
