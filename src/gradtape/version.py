"""`gt.version`: which version of gradtape this is, under TensorFlow's names. Only re-exports."""

from gradtape.config import VERSION as VERSION

GIT_VERSION = COMPILER_VERSION = VERSION
