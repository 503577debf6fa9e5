"""What a run prints and writes: one file per output, all made from the same summary."""
