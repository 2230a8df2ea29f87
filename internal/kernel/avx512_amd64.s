#include "textflag.h"

// The narrow products process eight rows of x at a time, whose starts are DX bytes apart. They add in the order of the columns
// (or of the rows), with eight rows or one at a time, so a value does not depend on how many rows a call has.

// MASK sets K1 to the mask of the first CX of 16 values.
#define MASK \
	MOVQ $1, R15 \
	SHLQ CX, R15 \
	DECQ R15 \
	KMOVW R15, K1

// SETUP computes multiples of the row length, and the mask K1 of the first k of 16 values.
#define SETUP \
	MOVQ p+32(FP), DX \
	MOVQ k+40(FP), CX \
	MOVQ CX, R12 \
	MASK \
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
	LEAQ (R8)(DX*8), R15 // prefetch the next eight rows, which the hardware prefetcher does not
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

// COSINE replaces the angles in Z0 by scale·cos. It subtracts the nearest multiple of π in two parts, and evaluates a polynomial
// in the square of the rest.
#define COSINE \
	VMULPS Z16, Z0, Z1 \
	VRNDSCALEPS $8, Z1, Z1 \
	VFNMADD231PS Z17, Z1, Z0 \
	VFNMADD231PS Z18, Z1, Z0 \
	VCVTPS2DQ Z1, Z1 \
	VPSLLD $31, Z1, Z1 \ // the sign of an odd multiple
	VMULPS Z0, Z0, Z0 \
	VMINPS Z0, Z19, Z0 \ // limits the square of an angle too large to reduce; a NaN stays NaN
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
	MASK // of the last p mod 16 values of a row
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

// ACROSS combines all 16 values of a register with op and sets every value of z to the result.
#define ACROSS(op, z, scratch) \
	VSHUFF64X2 $0x4E, z, z, scratch \
	op scratch, z, z \
	VSHUFF64X2 $0xB1, z, z, scratch \
	op scratch, z, z \
	VPERMILPS $0x4E, z, scratch \
	op scratch, z, z \
	VPERMILPS $0xB1, z, scratch \
	op scratch, z, z

// func softmaxRows(x, highest, sums *float32, first *int32, constants *float32, n, k int)
TEXT ·softmaxRows(SB), NOSPLIT, $0-56
	MOVQ x+0(FP), DI
	MOVQ highest+8(FP), R8
	MOVQ sums+16(FP), R9
	MOVQ first+24(FP), R10
	MOVQ constants+32(FP), BX
	MOVQ n+40(FP), AX
	MOVQ k+48(FP), CX
	VBROADCASTSS (BX), Z16   // log2 e
	VBROADCASTSS 4(BX), Z17  // ln 2, first part
	VBROADCASTSS 8(BX), Z18  // ln 2, second part
	VBROADCASTSS 12(BX), Z19 // the polynomial, highest power first
	VBROADCASTSS 16(BX), Z20
	VBROADCASTSS 20(BX), Z21
	VBROADCASTSS 24(BX), Z22
	VBROADCASTSS 28(BX), Z23
	VBROADCASTSS 32(BX), Z24
	VBROADCASTSS 36(BX), Z25 // 1
	VBROADCASTSS 40(BX), Z26 // minExponent
	VBROADCASTSS 44(BX), Z27 // −Inf
	MOVQ CX, R12
	MASK // of the k values of a row
	SHLQ $2, R12

softmax:
	TESTQ AX, AX
	JZ finished
	VMOVAPS Z27, Z0
	VMOVUPS (DI), K1, Z0
	VMOVAPS Z0, Z1
	ACROSS(VMAXPS, Z1, Z2)
	VCMPPS $0, Z1, Z0, K1, K2
	KMOVW K2, R15
	ORL $0x10000, R15 // in a row of NaN no value equals the maximum
	BSFL R15, R15
	MOVL R15, (R10)
	VMOVSS X1, (R8)
	VSUBPS Z1, Z0, Z0
	VMAXPS Z0, Z26, Z0 // a NaN in Intel's last operand stays NaN
	VMULPS Z16, Z0, Z2
	VRNDSCALEPS $0, Z2, Z2
	VFNMADD231PS Z17, Z2, Z0
	VFNMADD231PS Z18, Z2, Z0
	VMOVAPS Z19, Z3
	VFMADD213PS Z20, Z0, Z3
	VFMADD213PS Z21, Z0, Z3
	VFMADD213PS Z22, Z0, Z3
	VFMADD213PS Z23, Z0, Z3
	VFMADD213PS Z24, Z0, Z3
	VFMADD213PS Z25, Z0, Z3
	VFMADD213PS Z25, Z0, Z3
	VSCALEFPS Z2, Z3, Z3
	VMOVAPS.Z Z3, K1, Z3
	VMOVAPS Z3, Z4
	ACROSS(VADDPS, Z4, Z5)
	VMOVSS X4, (R9)
	VDIVPS Z4, Z3, Z3
	VMOVUPS Z3, K1, (DI)
	ADDQ R12, DI
	ADDQ $4, R8
	ADDQ $4, R9
	ADDQ $4, R10
	DECQ AX
	JMP softmax

finished:
	VZEROUPPER
	RET

// func bytesToFloats(dst *float32, src *uint8, n int)
TEXT ·bytesToFloats(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), AX
	SUBQ $16, AX
	JLT bytesLeft

bytes:
	VPMOVZXBD (SI), Z0
	VCVTDQ2PS Z0, Z0
	VMOVUPS Z0, (DI)
	ADDQ $16, SI
	ADDQ $64, DI
	SUBQ $16, AX
	JGE bytes

bytesLeft:
	ADDQ $16, AX
	JZ bytesDone

byte:
	MOVBLZX (SI), CX
	VXORPS X0, X0, X0
	VCVTSI2SSL CX, X0, X0
	VMOVSS X0, (DI)
	INCQ SI
	ADDQ $4, DI
	DECQ AX
	JNZ byte

bytesDone:
	VZEROUPPER
	RET

// func standardizeRow(x, center, scale *float32, n int)
TEXT ·standardizeRow(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), DI
	MOVQ center+8(FP), SI
	MOVQ scale+16(FP), BX
	MOVQ n+24(FP), AX
	MOVQ AX, CX
	ANDQ $15, CX
	MASK // of the last n mod 16 values
	SUBQ $16, AX
	JLT standardizeRest

standardize:
	VMOVUPS (DI), Z0
	VCMPPS $7, Z0, Z0, K2 // not a NaN
	VSUBPS (SI), Z0, Z1
	VMULPS (BX), Z1, Z1
	VMOVAPS.Z Z1, K2, Z1
	VMOVUPS Z1, (DI)
	ADDQ $64, DI
	ADDQ $64, SI
	ADDQ $64, BX
	SUBQ $16, AX
	JGE standardize

standardizeRest:
	VMOVUPS.Z (DI), K1, Z0
	VMOVUPS.Z (SI), K1, Z2
	VMOVUPS.Z (BX), K1, Z3
	VCMPPS $7, Z0, Z0, K2
	VSUBPS Z2, Z0, Z1
	VMULPS Z3, Z1, Z1
	VMOVAPS.Z Z1, K2, Z1
	VMOVUPS Z1, K1, (DI)
	VZEROUPPER
	RET

// MOMENTS centres eight values and adds them to their sums. Y0 has the values, Y1 the centre, Z8 the weight. It sets Y2 to the
// centred values and K2 to the mask of those that are not NaN.
#define MOMENTS \
	VCMPPS $7, Y0, Y0, K2 \
	VSUBPS Y1, Y0, Y2 \
	VMOVAPS.Z Y2, K2, Y2 \
	VCVTPS2PD Y2, Z3 \
	VMULPD Z8, Z3, Z4 \
	VMULPD Z3, Z4, Z5 \
	VMOVAPD.Z Z8, K2, Z6

// func momentsRow(sums, squares, present *float64, x, center *float32, weight float64, n int)
TEXT ·momentsRow(SB), NOSPLIT, $0-56
	MOVQ sums+0(FP), R8
	MOVQ squares+8(FP), R9
	MOVQ present+16(FP), R10
	MOVQ x+24(FP), DI
	MOVQ center+32(FP), SI
	VBROADCASTSD weight+40(FP), Z8
	MOVQ n+48(FP), AX
	MOVQ AX, CX
	ANDQ $7, CX
	MASK // of the last n mod 8 values
	SUBQ $8, AX
	JLT momentsRest

moments:
	VMOVUPS (DI), Y0
	VMOVUPS (SI), Y1
	MOMENTS
	VMOVUPS Y2, (DI)
	VADDPD (R8), Z4, Z4
	VMOVUPD Z4, (R8)
	VADDPD (R9), Z5, Z5
	VMOVUPD Z5, (R9)
	VADDPD (R10), Z6, Z6
	VMOVUPD Z6, (R10)
	ADDQ $32, DI
	ADDQ $32, SI
	ADDQ $64, R8
	ADDQ $64, R9
	ADDQ $64, R10
	SUBQ $8, AX
	JGE moments

momentsRest:
	VMOVUPS.Z (DI), K1, Y0
	VMOVUPS.Z (SI), K1, Y1
	MOMENTS
	VMOVUPS Y2, K1, (DI)
	VMOVUPD.Z (R8), K1, Z7
	VADDPD Z7, Z4, Z4
	VMOVUPD Z4, K1, (R8)
	VMOVUPD.Z (R9), K1, Z7
	VADDPD Z7, Z5, Z5
	VMOVUPD Z5, K1, (R9)
	VMOVUPD.Z (R10), K1, Z7
	VADDPD Z7, Z6, Z6
	VMOVUPD Z6, K1, (R10)
	VZEROUPPER
	RET
