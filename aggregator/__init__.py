"""Two aggregators that release differentially private sums of secret-shared reports.

The wire formats follow two drafts, named here and nowhere else: `DAP_DRAFT` for the messages
between the parties and `VDAF_DRAFT` for Prio3. Other modules cite section titles only.
"""

__version__ = "0.1.0"

DAP_DRAFT = "draft-ietf-ppm-dap-18"
VDAF_DRAFT = "draft-irtf-cfrg-vdaf-20"
