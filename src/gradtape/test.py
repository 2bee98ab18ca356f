"""`gt.test`: checks of derivatives, and questions about devices, under TensorFlow's names."""

from gradtape.devices import is_gpu_available as is_gpu_available
from gradtape.tools.gradcheck import compute_gradient as compute_gradient

is_built_with_cuda = is_built_with_rocm = is_built_with_gpu_support = is_built_with_xla = is_gpu_available
