// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fuzz_reclaim.c - the reclaim core beside its model (tests/model/lru_model.h), driven by the fuzzer's bytes.
 */
#include <stddef.h>
#include <stdint.h>
#include "../model/lru_model.h"

struct input {
	const uint8_t *at, *end;
	uint64_t mixed;
};

/* Two bytes at a time, spread over 64 bits so that each step's choices see them; the rest by mixing. */
static uint64_t next_number(void *arg)
{
	struct input *in = arg;
	uint64_t z;

	for (uint32_t i = 0; i < 2 && in->at < in->end; i++)
		in->mixed = in->mixed << 8 | *in->at++;
	z = in->mixed + 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	return z ^ z >> 27;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t sizes[] = {1, 64, 65, 512, 513, 1100, 1600};
	struct input in = {data, data + size, 0};
	struct model m = {.number = next_number, .arg = &in};

	if (size < 4)
		return 0;
	model_begin(&m, sizes[data[0] % ARRAY_SIZE(sizes)],
		    (enum reclaim_order)(data[1] % RECLAIM_NR_ORDERS));
	while (in.at < in.end) {
		model_step(&m);
		must(reclaim_verify(m.r));
	}
	model_compare(&m);
	model_end(&m);
	return 0;
}
