#include "textflag.h"

// The narrow products walk eight rows of x at a time, whose starts are DX bytes apart. They add in the order of the columns
// (or of the rows), eight together or one by one, so a value does not depend on how many rows a call has.

// SETUP finds the multiples of the row length, and the mask K1 of the first k of 16 values.
#define SETUP \
	MOVQ p+32(FP), DX \
	MOVQ k+40(FP), CX \
	MOVQ CX, R12 \
	MOVQ $1, R15 \
	SHLQ CX, R15 \
	DECQ R15 \
	KMOVW R15, K1 \
	SHLQ $2, R12          \ // bytes of a narrow row
	SHLQ $2, DX           \
	LEAQ (DX)(DX*2), R9   \ // 3 rows
	LEAQ (DX)(DX*4), R10  \ // 5 rows
	LEAQ (R9)(DX*4), R11    // 7 rows

// COLUMN adds x[i, j]·w[j, :] to the sums Z0 … Z7 of eight rows. SI is at x[0, j − off/4], BX at w[j − off/4, :].
#define COLUMN(off) \
	VMOVUPS (16*off)(BX), Z8 \
	VFMADD231PS.BCST off(SI), Z8, Z0 \
	VFMADD231PS.BCST off(SI)(DX*1), Z8, Z1 \
	VFMADD231PS.BCST off(SI)(DX*2), Z8, Z2 \
	VFMADD231PS.BCST off(SI)(R9*1), Z8, Z3 \
	VFMADD231PS.BCST off(SI)(DX*4), Z8, Z4 \
	VFMADD231PS.BCST off(SI)(R10*1), Z8, Z5 \
	VFMADD231PS.BCST off(SI)(R9*2), Z8, Z6 \
	VFMADD231PS.BCST off(SI)(R11*1), Z8, Z7

// STORE adds a sum to the next row of dst.
#define STORE(z) \
	VMOVUPS.Z (DI), K1, Z9 \
	VADDPS Z9, z, z \
	VMOVUPS z, K1, (DI) \
	ADDQ R12, DI

// func mulNarrow(dst, x, w *float32, n, p, k int)
TEXT ·mulNarrow(SB), NOSPLIT, $0-48
	SETUP
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), R8
	MOVQ n+24(FP), AX

eight:
	CMPQ AX, $8
	JLT rest
	MOVQ R8, SI
	MOVQ w+16(FP), BX
	VPXORD Z0, Z0, Z0
	VPXORD Z1, Z1, Z1
	VPXORD Z2, Z2, Z2
	VPXORD Z3, Z3, Z3
	VPXORD Z4, Z4, Z4
	VPXORD Z5, Z5, Z5
	VPXORD Z6, Z6, Z6
	VPXORD Z7, Z7, Z7
	LEAQ (R8)(DX*8), R15 // the next eight rows, which no hardware prefetcher expects
	MOVQ p+32(FP), CX
	SUBQ $16, CX
	JLT few

columns:
	PREFETCHT0 (R15)
	PREFETCHT0 (R15)(DX*1)
	PREFETCHT0 (R15)(DX*2)
	PREFETCHT0 (R15)(R9*1)
	PREFETCHT0 (R15)(DX*4)
	PREFETCHT0 (R15)(R10*1)
	PREFETCHT0 (R15)(R9*2)
	PREFETCHT0 (R15)(R11*1)
	COLUMN(0)
	COLUMN(4)
	COLUMN(8)
	COLUMN(12)
	COLUMN(16)
	COLUMN(20)
	COLUMN(24)
	COLUMN(28)
	COLUMN(32)
	COLUMN(36)
	COLUMN(40)
	COLUMN(44)
	COLUMN(48)
	COLUMN(52)
	COLUMN(56)
	COLUMN(60)
	ADDQ $64, SI
	ADDQ $1024, BX
	ADDQ $64, R15
	SUBQ $16, CX
	JGE columns

few:
	ADDQ $16, CX
	JZ stored

column:
	COLUMN(0)
	ADDQ $4, SI
	ADDQ $64, BX
	DECQ CX
	JNZ column

stored:
	STORE(Z0)
	STORE(Z1)
	STORE(Z2)
	STORE(Z3)
	STORE(Z4)
	STORE(Z5)
	STORE(Z6)
	STORE(Z7)
	LEAQ (R8)(DX*8), R8
	SUBQ $8, AX
	JMP eight

rest:
	TESTQ AX, AX
	JZ done

one:
	MOVQ R8, SI
	MOVQ w+16(FP), BX
	VPXORD Z0, Z0, Z0
	MOVQ p+32(FP), CX

single:
	VMOVUPS (BX), Z8
	VFMADD231PS.BCST (SI), Z8, Z0
	ADDQ $64, BX
	ADDQ $4, SI
	DECQ CX
	JNZ single
	STORE(Z0)
	ADDQ DX, R8
	DECQ AX
	JNZ one

done:
	VZEROUPPER
	RET

// FEATURE adds Σ x[i, j]·r[i, :] over eight rows to the sum of feature j. SI is at x[0, j − off/4], DI at sum[j − off/4, :].
#define FEATURE(off) \
	VMOVUPS (16*off)(DI), Z8 \
	VFMADD231PS.BCST off(SI), Z0, Z8 \
	VFMADD231PS.BCST off(SI)(DX*1), Z1, Z8 \
	VFMADD231PS.BCST off(SI)(DX*2), Z2, Z8 \
	VFMADD231PS.BCST off(SI)(R9*1), Z3, Z8 \
	VFMADD231PS.BCST off(SI)(DX*4), Z4, Z8 \
	VFMADD231PS.BCST off(SI)(R10*1), Z5, Z8 \
	VFMADD231PS.BCST off(SI)(R9*2), Z6, Z8 \
	VFMADD231PS.BCST off(SI)(R11*1), Z7, Z8 \
	VMOVUPS Z8, (16*off)(DI)

#define RESIDUAL(z) \
	VMOVUPS.Z (BX), K1, z \
	ADDQ R12, BX

// func crossNarrow(sum, x, r *float32, n, p, k int)
TEXT ·crossNarrow(SB), NOSPLIT, $0-48
	SETUP
	MOVQ x+8(FP), R8
	MOVQ r+16(FP), BX
	MOVQ n+24(FP), AX

eight:
	CMPQ AX, $8
	JLT rest
	MOVQ sum+0(FP), DI
	MOVQ R8, SI
	RESIDUAL(Z0)
	RESIDUAL(Z1)
	RESIDUAL(Z2)
	RESIDUAL(Z3)
	RESIDUAL(Z4)
	RESIDUAL(Z5)
	RESIDUAL(Z6)
	RESIDUAL(Z7)
	MOVQ p+32(FP), CX
	SUBQ $8, CX
	JLT few

features:
	FEATURE(0)
	FEATURE(4)
	FEATURE(8)
	FEATURE(12)
	FEATURE(16)
	FEATURE(20)
	FEATURE(24)
	FEATURE(28)
	ADDQ $32, SI
	ADDQ $512, DI
	SUBQ $8, CX
	JGE features

few:
	ADDQ $8, CX
	JZ next

feature:
	FEATURE(0)
	ADDQ $4, SI
	ADDQ $64, DI
	DECQ CX
	JNZ feature

next:
	LEAQ (R8)(DX*8), R8
	SUBQ $8, AX
	JMP eight

rest:
	TESTQ AX, AX
	JZ done

one:
	MOVQ sum+0(FP), DI
	MOVQ R8, SI
	RESIDUAL(Z0)
	MOVQ p+32(FP), CX

single:
	VMOVUPS (DI), Z8
	VFMADD231PS.BCST (SI), Z0, Z8
	VMOVUPS Z8, (DI)
	ADDQ $64, DI
	ADDQ $4, SI
	DECQ CX
	JNZ single
	ADDQ DX, R8
	DECQ AX
	JNZ one

done:
	VZEROUPPER
	RET

// COSINE turns the angles in Z0 into scale·cos: the multiple of π next to it is taken off in two parts, and what is left has
// a polynomial in its square.
#define COSINE \
	VMULPS Z16, Z0, Z1 \
	VRNDSCALEPS $8, Z1, Z1 \
	VFNMADD231PS Z17, Z1, Z0 \
	VFNMADD231PS Z18, Z1, Z0 \
	VCVTPS2DQ Z1, Z1 \
	VPSLLD $31, Z1, Z1 \ // the sign of an odd multiple
	VMULPS Z0, Z0, Z0 \
	VMINPS Z0, Z19, Z0 \ // of an angle too large to be reduced; a NaN stays
	VMOVAPS Z24, Z2 \
	VFMADD213PS Z23, Z0, Z2 \
	VFMADD213PS Z22, Z0, Z2 \
	VFMADD213PS Z21, Z0, Z2 \
	VFMADD213PS Z20, Z0, Z2 \
	VFMADD213PS Z25, Z0, Z2 \
	VPXORD Z1, Z2, Z2 \
	VMULPS Z26, Z2, Z2

// func cosineRows(x, offsets, constants *float32, n, p int)
TEXT ·cosineRows(SB), NOSPLIT, $0-40
	MOVQ x+0(FP), DI
	MOVQ constants+16(FP), BX
	MOVQ n+24(FP), AX
	VBROADCASTSS (BX), Z16
	VBROADCASTSS 4(BX), Z17
	VBROADCASTSS 8(BX), Z18
	VBROADCASTSS 12(BX), Z19
	VBROADCASTSS 16(BX), Z20
	VBROADCASTSS 20(BX), Z21
	VBROADCASTSS 24(BX), Z22
	VBROADCASTSS 28(BX), Z23
	VBROADCASTSS 32(BX), Z24
	VBROADCASTSS 36(BX), Z25
	VBROADCASTSS 40(BX), Z26
	MOVQ p+32(FP), CX
	ANDQ $15, CX
	MOVQ $1, R15
	SHLQ CX, R15
	DECQ R15
	KMOVW R15, K1 // of the last p mod 16 values of a row
	MOVQ CX, R9
	SHLQ $2, R9

row:
	TESTQ AX, AX
	JZ done
	MOVQ offsets+8(FP), SI
	MOVQ p+32(FP), CX
	SUBQ $16, CX
	JLT tail

body:
	VMOVUPS (DI), Z0
	VADDPS (SI), Z0, Z0
	COSINE
	VMOVUPS Z2, (DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $16, CX
	JGE body

tail:
	VMOVUPS.Z (DI), K1, Z0
	VMOVUPS.Z (SI), K1, Z3
	VADDPS Z3, Z0, Z0
	COSINE
	VMOVUPS Z2, K1, (DI)
	ADDQ R9, DI
	DECQ AX
	JMP row

done:
	VZEROUPPER
	RET
