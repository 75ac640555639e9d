"""The headline claims of the papers that hogshare is built on, a file for each paper."""
