"""What asks for derivatives: `GradientTape`, accumulators, Jacobians, custom gradients, the memory limit, functional forms.

Read `gradient_tape` first. The walk itself is in `ad/backward.py`.
"""
