"""What an operation means: one object per op with its forward, type rule, derivative, batching rule and samples."""
