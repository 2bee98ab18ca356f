"""LLVM IR: as text, as registers with operators (`algebra`), as functions with control flow (`builder`); mathematics."""
