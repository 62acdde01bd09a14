"""Captures a PyTorch function as an exported program: python export.py double.pt2"""

import sys

import torch


class Double(torch.nn.Module):
    def forward(self, x):
        return 2 * x + 3


program = torch.export.export(Double(), (torch.tensor(5.0),)).run_decompositions({})
for node in program.graph.nodes:
    node.meta.pop("stack_trace", None)
torch.export.save(program, sys.argv[1])
print(Double()(torch.tensor(5.0)).item())
