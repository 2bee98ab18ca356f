"""Items of lists that live in the program: known by the slot in which they stand.

Such a list has values for items, not objects. What is taken out of a slot, or put there, is linked to the slot, so that a
change of it in place is written to the list; where a slot can no longer be told, its object must not change any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from gradtape.core.dispatch import apply, convert
from gradtape.core.record import user_location
from gradtape.functions.staging.aliasing.conditions import Flag, both, one_slot, opposite
from gradtape.functions.staging.aliasing.object_parts import has_identity
from gradtape.functions.staging.joins import JoinError
from gradtape.functions.staging.staged_values import staged_items
from gradtape.ops.elementwise import cast
from gradtape.ops.lists import LIST_LEN
from gradtape.ops.select import where
from gradtape.trace.weak import WeakTensor

if TYPE_CHECKING:
    from gradtape.functions.staging.aliasing.aliases import Aliases

IN_LIST = (
    "this {} is an item of a list whose items live in the program, and which of them it is, or whether it still is one, "
    "depends on what happened at run time: it cannot be changed in place. Put a copy into the list (gt.identity(t), list(l)), "
    "or write `list[i] = changed`"
)


class ListSlot:
    """Item `index` of `owner`, a list of the program, where `valid` holds: `item` is what was put there or taken from there.
    Without an index it is any of the items, and must not change."""

    __slots__ = ("index", "item", "owner", "valid")

    def __init__(self, owner: list[Any], index: Any, item: Any) -> None:
        self.owner = owner
        self.index = index
        self.item = item
        self.valid: Flag = True


class ListSlots:
    """The known slots of one trace."""

    def __init__(self, aliases: Aliases) -> None:
        self._aliases = aliases
        self.slots: list[ListSlot] = []

    def taken(self, owner: list[Any], index: Any, item: Any) -> None:
        """`item` is what `owner[index]` gave."""
        if self._aliases.tracking:
            self._aliases.link(item, self._slot(owner, _counted(owner, index), item), True)
        else:
            self._aliases.suspect(item)

    def stored(self, owner: list[Any], index: Any, value: Any, new: bool) -> None:
        """`owner[index] = value`, or `value` is a `new` item at its end."""
        if not self._aliases.tracking:
            self._aliases.suspect(value)
            return
        if isinstance(value, list) and self._aliases.tracer.can_unroll:
            # unrolled, the rows of a table stay Python lists: the derivative of a row that grows in place needs its old length
            raise JoinError(f"{user_location()}: a list becomes an item of a list whose items live in the program")
        if not new:
            index = _counted(owner, index)
            self.vacate(owner, index)
        if has_identity(value):
            self._aliases.link(self._slot(owner, index, value), value, True)

    def removed(self, owner: list[Any], item: Any) -> None:
        """`item` was the last of the list; called before the list is changed."""
        self.taken(owner, -1, item)
        if self._aliases.tracking:
            self.vacate(owner, self.slots[-1].index)

    def vacate(self, owner: list[Any], index: Any = None) -> None:
        """The slot at an index (None: each) gets another object, or goes."""
        for slot, flag in self._slots(owner):
            # an item at an unknown index is any of them: it may be there still
            if slot.index is not None or index is None:
                gone = both(flag, True if index is None else one_slot(slot.index, index))
                self._aliases.journal.append(partial(setattr, slot, "valid", slot.valid))
                slot.valid = both(slot.valid, opposite(gone))

    def lost(self, items: Iterable[Any]) -> None:
        """These are items of a list of the program, nobody knows which."""
        (self._aliases.freeze if self._aliases.tracking else self._aliases.suspect)(*items)

    def known_elsewhere(self, *owners: Any) -> None:
        """The items of lists are known elsewhere too: none of them must change."""
        for owner in owners if self._aliases.tracking else ():
            if not any(slot.owner is owner and slot.index is None for slot in self.slots):
                self._aliases.freeze(self._slot(owner, None, None))

    def _slots(self, owner: list[Any]) -> list[tuple[ListSlot, Flag]]:
        """The known slots of a list and of those that may be the same one, and when they are."""
        owners = [(owner, True), *self._aliases.alias_set(owner)]
        return [(slot, flag) for other, flag in owners for slot in self.slots if slot.owner is other]

    def _slot(self, owner: list[Any], index: Any, item: Any) -> ListSlot:
        """A new slot; it is each known one that has its index."""
        slot = ListSlot(owner, index, item)
        for known, flag in self._slots(owner):
            self._aliases.link(slot, known, both(both(flag, known.valid), one_slot(known.index, index)))
        self.slots.append(slot)
        self._aliases.journal.append(self.slots.pop)
        return slot


def _counted(owner: list[Any], index: Any) -> Any:
    """An index counted from the start, as an int or an integer of the program."""
    staged = staged_items(owner)
    if staged is None:
        raise TypeError("not a list of the program")
    if isinstance(index, int):
        if index >= 0:
            return index
        return staged.length + index if staged.length is not None else apply(LIST_LEN, staged.items) + index
    tensor = cast(convert(index), "int32")
    if isinstance(tensor, WeakTensor):
        tensor = tensor.strong()
    return where(tensor < 0, tensor + apply(LIST_LEN, staged.items), tensor)
