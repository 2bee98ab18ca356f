"""`Options`: accepted as TensorFlow has them. `deterministic` is obeyed by `map`; the others concern machinery that this
library does not have, and are kept so that programs that set them run."""

from __future__ import annotations

from typing import Any

_GROUPS = {
    "autotune": ("cpu_budget", "enabled", "ram_budget", "autotune_algorithm", "initial_parallelism", "min_parallelism"),
    "experimental_distribute": ("auto_shard_policy", "num_devices"),
    "experimental_optimization": (
        "apply_default_optimizations", "filter_fusion", "filter_parallelization", "inject_prefetch", "map_and_batch_fusion",
        "map_and_filter_fusion", "map_fusion", "map_parallelization", "noop_elimination", "parallel_batch",
        "seq_interleave_prefetch", "shuffle_and_repeat_fusion", "warm_start",
    ),
    "threading": ("max_intra_op_parallelism", "private_threadpool_size"),
}  # fmt: skip
_FLAGS = (
    "dataset_name", "deterministic", "experimental_deterministic", "experimental_external_state_policy", "experimental_slack",
    "experimental_symbolic_checkpoint", "experimental_threading", "experimental_warm_start", "framework_type",
)  # fmt: skip


class OptionGroup:
    """DatasetOptions that belong together."""

    def __init__(self, name: str, fields: tuple[str, ...]) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_fields", fields)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._fields:
            raise AttributeError(f"Options.{self._name} has no option {name!r}; it has {', '.join(self._fields)}")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._fields:
            raise AttributeError(f"Options has no option {name!r}")
        return None


class DatasetOptions(OptionGroup):
    """DatasetOptions of a dataset, given to `Dataset.with_options`.

    >>> import gradtape as gt
    >>> options = gt.data.Options()
    >>> options.deterministic = False
    >>> gt.data.Dataset.range(3).with_options(options).options().deterministic
    False
    """

    def __init__(self) -> None:
        super().__init__("Options", (*_FLAGS, *_GROUPS))
        for name, fields in _GROUPS.items():
            object.__setattr__(self, name, OptionGroup(name, fields))

    def merge(self, options: DatasetOptions) -> DatasetOptions:
        """These, and where they are set, those of another."""
        merged = DatasetOptions()
        for source in (self, options):
            for name in _FLAGS:
                if getattr(source, name) is not None:
                    setattr(merged, name, getattr(source, name))
            for group, fields in _GROUPS.items():
                for name in fields:
                    if (value := getattr(getattr(source, group), name)) is not None:
                        setattr(getattr(merged, group), name, value)
        return merged
