"""From a report to bytes. No I/O."""
