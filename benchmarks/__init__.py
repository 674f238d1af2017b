"""Speed and memory, measured in one run and printed as tables. Nothing here is a test."""
