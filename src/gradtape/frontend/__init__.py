"""What the user touches: tapes, variables, accumulators, functional forms, modules, optimizers."""
