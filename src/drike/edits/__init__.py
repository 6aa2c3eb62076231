"""Edits: the nouns, how they are checked, and when and to which requests they apply.

`edit` has an edit and its probes, `record` what a person says of an edit and its versions;
`conditions`, `times` and `conflicts` say where records hold and which exclude each other;
`record_checks` refuses bad ones, `record_json` writes and reads them.
"""
