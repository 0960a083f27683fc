"""Whether a snapshot is what controllers published (design D4): the history it stands in, and the
very state.

Responsible for the judgement and its words. Refuses to know where snapshots and outcomes come from.
"""

from events.outcomes import Outcome
from processors.fold.folder import Folder


def doubt(folder: Folder, published: Outcome | None) -> str | None:
    """Why a snapshot cannot be used, given the outcome that was published for its offset; None when
    it is proven.
    """
    if published is None:
        return "no outcome of that offset is published to compare it with"
    if published.digest != folder.digest:
        return "another digest was published for it, so it is of another history"
    if not published.state_digest:
        return (
            "no digest of the state was published for that offset (a release before this one wrote "
            "it)"
        )
    if published.state_digest != folder.state_digest():
        return (
            "its state is not the one that was published for that offset: the file was changed, or "
            "its writer was wrong"
        )
    return None
