"""How operations are written: formulas, index maps, folds, loop nests, lists, control flow."""
