# A tile comes in, its rows go through the array, the adder and back, four times.
            addi.s x3, x0, 31
            lui.s x4, 2039808
            or.s x3, x3, x4
            lui.s x2, 512
            scpad.ld x1, x2, x3
            addi.s x12, x0, 7
            addi.s x13, x0, 3
            addi.s x11, x0, 0
            or.s x5, x1, x0
    outer:  addi.s x10, x0, 0
    weights:vreg.ld v1, x5, x10, 31, 0
            { lw.vi v0, v1, 0, 0 ; blt.s x10, x12, weights, 1 }
            addi.s x10, x0, 0
            rcp.bf x6, x12
    rows:   { vreg.ld v2, x0, x10, 31, 0 ; vreg.ld v3, x0, x10, 31, 2 }
            gemm.vv v4, v2, v0, 0
            add.vv v5, v4, v3, 0
            { vreg.st v5, x0, x10, 31, 1 ; blt.s x10, x12, rows, 1 }
            rsum.vi v6, v5, 64, 0
            vmov.vts x7, v6, 0
            sw.s x7, 0(x2)
            addi.s x10, x0, 0
            blt.s x11, x13, outer, 1
            halt.s
