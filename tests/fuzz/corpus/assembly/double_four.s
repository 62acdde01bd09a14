# packets: 10, operations: 12, data words: 4
start:
        addi.s x1, x0, 60                                         # 00000000
        { lw.s x2, 0(x1) ; lui.s x4, 24576 }                      # 00000014
        { lw.s x3, 4(x1) ; addi.s x4, x4, 3 }                     # 00000028
        addi.s x5, x0, 0                                          # 0000003C
        scpad.ld x5, x2, x4                                       # 00000050
"loop top":
        vreg.ld v1, x5, x0, 3, 0                                  # 00000064
        add.vv v2, v1, v1, m0                                     # 00000078
        vreg.st v2, x5, x0, 3, 0                                  # 0000008C
        scpad.st x5, x3, x4                                       # 000000A0
        halt.s                                                    # 000000B4

.data

0000003C: 00001000
00000040: 00002000
00001000: C0203F80
00001004: 43C03E20
