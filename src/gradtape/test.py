"""`gt.test`: checks of derivatives, under TensorFlow's name."""

from gradtape.tools.gradcheck import compute_gradient as compute_gradient
