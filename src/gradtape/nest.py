"""`gt.nest`: nested structures of Python containers, under TensorFlow's name."""

from gradtape.tree import (
    assert_same_structure as assert_same_structure,
    flatten as flatten,
    is_nested as is_nested,
    map_structure as map_structure,
    pack_sequence_as as pack_sequence_as,
)
