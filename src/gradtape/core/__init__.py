"""One operation at run time: the `Op` and its facts, the tensor, dispatch, records. Knows no family of operations.

Read in this order: `opdef`, `tensor`, `record`, `dispatch` (`forms` is its short form), `recorded`, `save_plan`, `conversion`.
`typing` names the types that signatures use, here and in all rooms below.
"""
