"""`gt.autodiff`: the differentiation tools under TensorFlow's name."""

from gradtape.tape.accumulator import ForwardAccumulator as ForwardAccumulator
from gradtape.tape.gradient_tape import GradientTape as GradientTape
