"""`gt.autodiff`: the differentiation tools under TensorFlow's name."""

from gradtape.frontend.forward import ForwardAccumulator as ForwardAccumulator
from gradtape.frontend.tape import GradientTape as GradientTape
