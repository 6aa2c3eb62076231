"""The admin port: changes of edits by people, the page, and webhooks about edits that need a person."""
