"""`gt.nn`: neural-network operations under TensorFlow's names. Only re-exports."""

from gradtape.ops.activations import *
from gradtape.ops.blocks import (
    depth_to_space as depth_to_space,
    space_to_batch as space_to_batch,
    space_to_depth as space_to_depth,
)
from gradtape.ops.clipping import l2_normalize as l2_normalize
from gradtape.ops.composite import zero_fraction as zero_fraction
from gradtape.ops.conv import *
from gradtape.ops.elementwise import tanh as tanh
from gradtape.ops.losses import (
    l2_loss as l2_loss,
    sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
)
from gradtape.ops.nn_functions import *
from gradtape.ops.normalization import *
from gradtape.ops.pool import *
from gradtape.ops.sequence_losses import (
    ctc_loss as ctc_loss,
    nce_loss as nce_loss,
    sampled_softmax_loss as sampled_softmax_loss,
)
from gradtape.ops.sorting import in_top_k as in_top_k, top_k as top_k
from gradtape.surface.name_hints import hint as _hint

_hint(__name__)
