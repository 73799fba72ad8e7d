// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fuzz_reclaim.c - the reclaim core beside its model (tests/model/lru_model_run.h), driven by the fuzzer's bytes:
 * facts in any order that a bug of the daemon or a hostile VMM could cause, decisions asked for at any time.
 */
#include <stddef.h>
#include <stdint.h>
#include "../model/lru_model_run.h"

struct input {
	const uint8_t *at, *end;
};

/*
 * Two bytes of input for a number, so that a change of one changes one choice. Choices are the number's middle
 * bits, modulo something small; that much is the input itself, and above it repeats.
 */
static uint64_t next_number(void *arg)
{
	struct input *in = arg;
	uint64_t number = 0;

	for (uint32_t i = 0; i < 2 && in->at < in->end; i++)
		number |= (uint64_t)*in->at++ << 8 * i;
	return number * 0x0001000100010001;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t sizes[] = {1, 64, 65, 512, 513, 1100, 1600};
	struct input in = {data, data + size};
	struct model m = {.number = next_number, .arg = &in};

	if (size < 4)
		return 0;
	in.at += 2;
	model_begin(&m, sizes[data[0] % ARRAY_SIZE(sizes)],
		    (enum reclaim_order)(data[1] % RECLAIM_NR_ORDERS));
	for (uint32_t i = 1; in.at < in.end; i++) {
		model_step(&m);
		must(reclaim_verify(m.r));
		if (i % 16 == 0)
			model_compare(&m);
	}
	model_compare(&m);
	model_drain(&m);
	model_compare(&m);
	model_end(&m);
	return 0;
}
