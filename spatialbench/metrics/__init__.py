"""The metrics' mathematics on arrays and numbers: no files, models, worlds or clocks."""
