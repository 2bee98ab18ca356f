"""`gt.image`: images under TensorFlow's names: sizes, colours, measures; what is chosen at random. Only re-exports."""

from gradtape.ops.colours import *
from gradtape.ops.image_measures import *
from gradtape.ops.resizing import *
from gradtape.ops.resizing import transpose_image as _transpose_image

transpose = _transpose_image
