"""Waiting for other ranks without waiting for ever: who waits long says so, and hears who has failed, ended or waits, too.

Nothing is decided by a clock: a rank may take hours to come. What ends a wait is a rank that has ended before the operation, or
that *all* ranks wait, in operations that do not belong together. Rank 0 judges: a rank tells it where it waits, and when it
goes on. If none of them can go on, rank 0 asks all of them twice whether they are where they were. Each answers after it has
looked for what it waits for, and so after all that the others sent before they said that they wait: nothing can be on its way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gradtape.distribute.rank_errors import ALIKE, RankError

if TYPE_CHECKING:
    from gradtape.distribute.mpi_world import MpiWorld

_NAP = 5e-5  # seconds between two tests where ranks share cores
_LOOK = 0.25  # seconds between two looks at the others
_ROUNDS = 2  # of questions and answers before a deadlock is called one
# seconds in which the others must have left a program, too, that this rank left with an error nobody could expect (no memory
# was left, say): inside of MPI they do not hear it
_LATE = 20.0


@dataclass(frozen=True)
class Post:
    """What a rank waits in, as others must know it."""

    count: int  # of operations that all ranks call: its own number, or that of the last one before a message
    kind: str  # "together", "transfer" (all have come, data are on their way), "message", "program", "ended"
    words: str  # operation and line
    dest: int = -1  # of a message: who has not taken it, and who has not sent it
    source: int = -1
    program: int = -1  # that runs, or ran last; how many operations between ranks were begun in it, digests of the last ones
    begun: int = 0
    digests: tuple[int, ...] = ()
    turn: int = 0  # which of the waits of this rank it is

    def is_met_by(self, other: Post) -> bool | None:
        """Whether the other has begun the operation of a program that this is a wait for; None if that was too long ago."""
        if self.program != other.program or other.begun < self.begun:
            return False
        ahead = other.begun - self.begun
        return other.digests[-1 - ahead] == self.digests[-1] if ahead < len(other.digests) else None


class Watch:
    """The words that ranks exchange beside their data."""

    def __init__(self, world: MpiWorld) -> None:
        self._world, self._mpi = world, world.mpi
        self._comm = world.mpi.COMM_WORLD.Dup()  # collectives do not pass here
        self.ended: dict[int, Post] = {}  # rank → how many operations it took part in (-1: it failed), what it said
        self.turns = 0  # waits that took so long that others were looked at
        self.asked = 0  # the last round of questions
        self._waits: dict[int, tuple[int, Post]] = {}  # rank → where it waits, and in which round it said so
        self._suspected: tuple[dict[int, Post], int] = {}, 0  # a deadlock, and how many rounds have confirmed it
        self._sent: list[Any] = []
        self.crowded = world.crowded

    def say_ended(self, words: str, failed: bool = False) -> None:
        """Tell all others that this rank will take part in nothing any more."""
        world = self._world
        for other in range(world.size):
            if other != world.rank:
                self.tell(other, "ended", self.placed(Post(-1 if failed else world.agreement.count, "ended", words)))

    def placed(self, post: Post) -> Post:
        """With where this rank is in its programs."""
        number, begun, digests = self._world.position
        return replace(post, program=number, begun=begun, digests=digests, turn=self.turns)

    @property
    def failed(self) -> set[int]:
        """Those of the ranks that have ended that failed; this one among them, if it asks."""
        return {self._world.rank, *(rank for rank, post in self.ended.items() if post.count < 0)}

    def unheard_of(self, seconds: float) -> list[int]:
        """The ranks that have not said within some seconds that they ended, too."""
        others, until = set(range(self._world.size)) - {self._world.rank}, time.monotonic() + seconds
        while not others <= self.ended.keys() and time.monotonic() < until:
            self.hear()
            time.sleep(1e-3)
        return sorted(others - self.ended.keys())

    def leave(self) -> None:
        """Wait until all ranks have said that they ended."""
        all_here, waiting = self._comm.Ibarrier(), Waiting(self)
        while not all_here.Test():
            time.sleep(1e-3)
            self.hear()
            if waiting.is_due() and self._world.rank == 0:
                waiting.judge(self.placed(Post(self._world.agreement.count, "ended", "")))
        self.unheard_of(_LATE)  # nothing is left on its way: of words that nobody takes some libraries complain

    def tell(self, other: int, kind: str, said: Any = None) -> None:
        """Say something to another rank."""
        self._sent = [request for request in self._sent if not request.Test()]
        self._sent.append(self._comm.isend((kind, self.asked, said), other))

    def hear(self) -> None:
        """Take what others have said."""
        comm = self._comm
        while comm.Iprobe(source=self._mpi.ANY_SOURCE):  # also: words that are not taken keep who sent them from leaving
            status = self._mpi.Status()
            kind, asked, said = comm.recv(source=self._mpi.ANY_SOURCE, status=status)
            if kind == "ended":
                self.ended[status.source] = said
            elif kind == "waits":
                self._waits[status.source] = asked, said
            elif kind == "goes on":
                self._waits.pop(status.source, None)
            else:
                self.asked = asked

    def blamed(self, post: Post) -> tuple[int, str] | None:
        """A rank that has ended and will not come; what it said."""
        self.hear()
        for other, end in self.ended.items():
            # who took part in as many operations as this one may leave before it is over here
            needed = end.count < post.count if post.kind != "message" else other in (post.dest, post.source)
            if needed or end.count < 0 or (post.kind == "program" and post.is_met_by(end) is False):
                return other, end.words
        return None

    def stuck(self, own: Post) -> list[str]:
        """On rank 0: what the ranks wait in, if they cannot go on; else nothing, and perhaps they are asked."""
        posts = {0: own, **{rank: post for rank, (_, post) in self._waits.items()}, **self.ended}
        idle = len(posts) == self._world.size and not any(_goes_on(rank, posts) for rank in posts)
        if not idle or all(post.kind == "ended" for post in posts.values()):
            self._suspected = {}, 0
            return []
        live = [rank for rank in posts if rank and rank not in self.ended]
        suspected, confirmed = self._suspected
        if posts != suspected:
            confirmed = 0
        elif all(self._waits[rank][0] == self.asked for rank in live):
            confirmed += 1
        else:
            return []  # not all have answered
        self._suspected = posts, confirmed
        if confirmed == _ROUNDS:
            where = {rank: "the end of its program" if post.kind == "ended" else post.words for rank, post in posts.items()}
            return [f"rank {rank} in {where[rank]}" for rank in sorted(posts)]
        self.asked += 1
        for rank in live:
            self.tell(rank, "where?")
        return []


def _goes_on(rank: int, posts: dict[int, Post]) -> bool:
    """Whether what a rank waits for comes, given where all are."""
    post, others = posts[rank], [post for other, post in posts.items() if other != rank]
    if post.kind == "together":
        return all(other.count >= post.count for other in others)
    if post.kind == "program":
        return all(post.is_met_by(other) for other in others)
    return post.kind == "transfer"


class Waiting:
    """One wait of this rank."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._world = watch, watch._world
        self._begun = self._last = time.monotonic()
        self._looks = 0
        self._answered = -1  # the last round in which others were told

    def is_due(self) -> bool:
        """Whether it is time to look at the others."""
        now = time.monotonic()
        if now - self._last < _LOOK:
            return False
        self._last = now
        self._looks += 1
        agreement = self._world.agreement
        if agreement.left_unheard and now - self._begun > _LATE:
            raise RankError(agreement.broken)
        return True

    def pause(self, post: Callable[[], Post]) -> None:
        """Let others run for a moment; from time to time, look for ranks that will not come. `post` says in what this is."""
        time.sleep(_NAP if self._watch.crowded else 0.0)
        if self.is_due():
            self._look(post())

    def _look(self, post: Post) -> None:
        watch, broken = self._watch, self._world.agreement.broken
        watch.turns += self._looks == 1
        post = watch.placed(post)
        if broken:
            post = replace(post, words=f"{post.words} ({broken})")
        other = watch.blamed(post)
        # (who ended well: its last message may be on the way)
        if other is not None and (self._looks > 1 or other[0] in watch.failed):
            raise RankError(f"rank {self._world.rank} waits in {post.words} for rank {other[0]}, which {other[1]}")
        if self._world.rank == 0:
            self.judge(post)
        elif self._answered != watch.asked:
            self._answered = watch.asked
            watch.tell(0, "waits", post)

    def judge(self, post: Post) -> None:
        """On rank 0: end a deadlock."""
        if stuck := self._watch.stuck(post):
            words = f"all ranks wait for one another: {'; '.join(stuck)}"
            raise RankError(f"{words}. {ALIKE}, and each message needs a sender and a receiver")

    def over(self) -> None:
        """What was waited for has come, or will not be waited for any longer."""
        if self._answered >= 0:
            self._watch.tell(0, "goes on")
