"""The headline claims of the papers behind hogshare, a file for each paper."""
