"""Training: from a configuration to the last checkpoint. `trainer` is the loop; the other modules are its parts."""
