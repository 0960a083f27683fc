"""AutoSwitchHA: how a slave copies the commit log of its master."""
