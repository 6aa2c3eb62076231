"""The admin port: changes of edits by people, trials, the page, and webhooks for people."""
