"""Aliasing under staged control flow: which objects are one and the same when the program runs.

Where the path decides which object a name refers to, the name gets a phi after the paths have met: an object whose content is
that of whichever object it stands for. The phi must also BE that object: a change made through it shows under the other names
of it, and the other way round. So it is linked to each object it may be, with a flag of the program that says when it is:

    a = [x]; b = a
    if c: a = [y]         the phi is linked to b's list, where `not c`
    a.append(z)           the phi changes; then b's list becomes `the phi's content where not c, else what it was`

What the rest of staging has to do, and may take on trust:

    aliases.before(t), aliases.changed(t)   around each write in place (the tracer does; nobody else)
    aliases.same(a, b)                      for `a is b`
    aliases.path(...)                       around the trace of a branch or of a loop's body
    BranchJoin, LoopJoin                    where paths meet: phis with their links
    aliases.watched, aliases.asked          tapes: refused where two that may be one would both count
    aliases.items                           lists of the program: items taken out, put in, lost

Nothing is followed until a trace changes an object that it could matter for (a `suspect`): then the trace starts again with
`tracking`. Read `aliases`, then `alias_joins`, `list_slots`; `conditions` are the flags, `escape` says what a body made itself,
`object_parts` what can be changed inside a value.
"""
