"""Waiting for other ranks without waiting for ever: who waits long says so, and hears who has failed, ended or waits, too.

Nothing is decided by a clock alone: a rank may take hours to come. What ends a wait is a rank that has ended before the
operation, or has left the program in which it stands (ranks that wait say how many operations they have begun there), or that
*all* ranks wait, in operations that do not belong together. Rank 0 is told who waits, and judges.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gradtape.distribute.rank_errors import ALIKE, RankError

if TYPE_CHECKING:
    from gradtape.distribute.mpi_world import MpiWorld

_NAP = 5e-5  # seconds between two tests where ranks share cores
_LOOK = 0.5  # seconds between two looks at the others
# seconds in which the others must have left a program, too, that this rank left with an error, where they are not heard: in
# programs that only send messages, which nobody counts, or inside of MPI
_LATE = 20.0
_SURE = 4.0, 30.0  # seconds in which all wait before it is called a deadlock: in eager operations, in compiled programs


@dataclass(frozen=True)
class Post:
    """What a rank waits in, as others must know it."""

    count: int  # of operations that all ranks call: its own number, or that of the last one before a message
    kind: str  # "together", "transfer" (all ranks have come, data are on their way), "message", "program"
    words: str  # operation and line
    dest: int = -1
    source: int = -1
    place: int = 0  # inside a program: what was done there so far
    program: int = -1  # that runs, or ran last, and how many operations between ranks were begun in it
    begun: int = 0

    def left_by(self, other: Post) -> bool:
        """Whether this is a wait in a program for an operation that the other rank has not begun and never will."""
        # (what is on its way to the other, or a message, may belong to the program still)
        left = self.kind == "program" and other.kind in ("together", "ended")
        return left and self.program == other.program >= 0 and other.begun < self.begun


class Watch:
    """The words that ranks exchange beside their data."""

    def __init__(self, world: MpiWorld) -> None:
        self._world, self._mpi = world, world.mpi
        self._comm = world.mpi.COMM_WORLD.Dup()  # collectives do not pass here
        self.ended: dict[int, Post] = {}  # rank → how many operations it took part in (-1: it failed), what it said
        self._beats: dict[int, tuple[int, float, Post]] = {}  # rank → how often it said so, for how long it waits, where
        self._sent: list[Any] = []
        self.crowded = world.crowded

    def wait(self, broken: str = "") -> Waiting:
        """A new wait; if this rank left a program in the middle, the others may be in it for ever."""
        return Waiting(self, broken)

    def say_ended(self, words: str, failed: bool = False) -> None:
        """Tell all others that this rank will take part in nothing any more."""
        world = self._world
        for other in range(world.size):
            if other != world.rank:
                post = self.placed(Post(-1 if failed else world.agreement.count, "ended", words))
                self._sent.append(self._comm.isend(("ended", 0.0, post), other))

    def placed(self, post: Post) -> Post:
        """With where this rank is in its programs."""
        number, begun = self._world.position
        return replace(post, program=number, begun=begun)

    @property
    def failed(self) -> set[int]:
        """Those of the ranks that have ended that failed; this one among them, if it asks."""
        return {self._world.rank, *(rank for rank, post in self.ended.items() if post.count < 0)}

    def unheard_of(self, seconds: float) -> list[int]:
        """The ranks that have not said within some seconds that they ended, too."""
        others, until = set(range(self._world.size)) - {self._world.rank}, time.monotonic() + seconds
        while not others <= self.ended.keys() and time.monotonic() < until:
            self._hear()
            time.sleep(1e-3)
        return sorted(others - self.ended.keys())

    def leave(self) -> None:
        """Wait until all ranks have said that they ended."""
        all_here, waiting = self._comm.Ibarrier(), self.wait(self._world.agreement.broken)
        while not all_here.Test():
            time.sleep(1e-3)
            self._hear()
            waiting.check_broken()
            if self._world.rank == 0:
                waiting.judge(self.placed(Post(-1, "ended", "the end of its program")))

    def tell(self, seconds: float, post: Post) -> None:
        """Tell the judge that this rank waits."""
        self._sent = [request for request in self._sent if not request.Test()]
        self._sent.append(self._comm.isend(("waits", seconds, post), 0))

    def _hear(self) -> None:
        comm = self._comm
        while comm.Iprobe(source=self._mpi.ANY_SOURCE):  # also: words that are not taken keep who sent them from leaving
            status = self._mpi.Status()
            kind, number, said = comm.recv(source=self._mpi.ANY_SOURCE, status=status)
            if kind == "ended":
                self.ended[status.source] = said
            else:
                # counted as long as it waits at the same place: a rank that goes on between two words is not stuck
                times, _, before = self._beats.get(status.source, (0, 0.0, None))
                self._beats[status.source] = (times + 1 if said == before else 1), number, said

    def blamed(self, post: Post) -> tuple[int, str] | None:
        """A rank that has ended and will not come; what it said."""
        self._hear()
        for other, end in self.ended.items():
            # who took part in as many operations as this one may leave before it is over here
            needed = end.count < post.count if post.kind != "message" else other in (post.dest, post.source)
            if needed or end.count < 0 or post.left_by(end):
                return other, end.words
        return None

    def stuck(self, own: Post, waited: float) -> list[str]:
        """What the ranks wait in, if they cannot go on; else nothing."""
        posts, patient = {0: own}, waited > _SURE[own.kind == "program"]
        for other in range(1, self._world.size):
            times, seconds, post = self._beats.get(other, (0, 0.0, own))
            if other in self.ended:
                posts[other] = replace(self.ended[other], words="the end of its program")
            elif times >= 2:  # (twice, so that words which were on the way while the rank went on do not count)
                posts[other] = post
            patient = patient and other in posts and (other in self.ended or seconds >= _SURE[post.kind == "program"])
        # one has left a program in which another waits for it: that needs no patience
        inside = max((post for post in posts.values() if post.kind == "program"), key=lambda post: post.begun, default=None)
        if inside is not None and any(map(inside.left_by, posts.values())):
            return [f"rank {rank} in {posts[rank].words}" for rank in sorted(posts)]
        if not patient:
            return []
        # data are on their way, or everybody is done: nobody waits in vain
        if any(post.kind == "transfer" for post in posts.values()) or all(post.kind == "ended" for post in posts.values()):
            return []
        for rank, post in posts.items():
            # a message whose sender stands at the other end arrives: the two go on
            partner = posts.get(post.source)
            if post.kind == "message" and partner is not None and partner.kind == "message" and partner.dest == rank:
                return []
        # all in the same operation: it will end, however slow it is
        if len({(post.kind, post.count, post.place) for post in posts.values()}) == 1 and own.kind != "message":
            return []
        return [f"rank {rank} in {posts[rank].words}" for rank in sorted(posts)]

    def forget_beats(self) -> None:
        """What was said before this wait began is old."""
        self._hear()
        self._beats.clear()


class Waiting:
    """One wait of this rank."""

    def __init__(self, watch: Watch, broken: str) -> None:
        self._watch, self._broken = watch, broken
        self._begun = self._last = time.monotonic()
        self._looks = 0

    def pause(self, post: Any) -> None:
        """Let others run for a moment; from time to time, look for ranks that will not come. `post` gives a `Post`."""
        time.sleep(_NAP if self._watch.crowded else 0.0)
        now = time.monotonic()
        # half a second, then more and more seldom: thousands of ranks may wait for one
        if now - self._last >= min(_LOOK * (1 + self._looks / 8), 5.0):
            self._last = now
            self._look(post())

    def check_broken(self) -> None:
        """Others may be inside of MPI, where they hear nothing, for an operation that this rank will not call."""
        if self._broken and time.monotonic() - self._begun > _LATE:
            raise RankError(self._broken)

    def _look(self, post: Post) -> None:
        self.check_broken()
        watch, world = self._watch, self._watch._world
        post = watch.placed(post)
        if self._broken:
            post = replace(post, words=f"{post.words} ({self._broken})")
        self._looks += 1
        other = watch.blamed(post)
        if other is not None and (
            self._looks > 1 or other[0] in watch.failed
        ):  # who ended well: its last message may be on the way
            raise RankError(f"rank {world.rank} waits in {post.words} for rank {other[0]}, which {other[1]}")
        if world.rank != 0:
            watch.tell(time.monotonic() - self._begun, post)
        elif self._looks == 1:
            watch.forget_beats()
        else:
            self.judge(post)

    def judge(self, post: Post) -> None:
        """On rank 0: end a deadlock."""
        if stuck := self._watch.stuck(post, time.monotonic() - self._begun):
            words = f"all ranks wait for one another: {'; '.join(stuck)}"
            raise RankError(f"{words}. {ALIKE}, and each message needs a sender and a receiver")
