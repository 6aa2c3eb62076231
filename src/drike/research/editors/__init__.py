"""How edits become prompts.

`editor.Editor` is the protocol. Each published method has a file: `factprompt`, `editcot`, `ike`,
`dr_ike`; `unedited` and `controls` are what they are compared with, and `catalog.make` has them all
by name. IKE, DR-IKE and the controls are one `in_context.InContextEditor` with different parts: a
`pool` of demonstrations, and a selector (`selectors`), mostly of a ranking (`rankings`,
`retriever`) and a budget (`budgets`), or DR-IKE-Q's `query_policy`.
"""
