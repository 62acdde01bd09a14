# A loop, packets of several operations, a local label and a gap.
start:
    { addi.s x1, x0, 10 ; lui.s x2, 4096 }
.Ltop:
    { add.s x3, x3, x1 ; nop.s }
    bgt.s x1, x0, .Ltop, 1
.org 0x100
    halt.s
