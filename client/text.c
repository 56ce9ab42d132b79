/* SPDX-License-Identifier: MIT */
#include "client/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 256

void ckpt_text_add(struct ckpt_text *t, const char *what, size_t len)
{
	if (t->room - t->len < len) {
		size_t room = t->room ? t->room : ROOM_FIRST;
		char *data;

		while (room - t->len < len)
			room *= 2;
		data = realloc(t->data, room);
		if (!data) {
			t->failed = true;
			return;
		}
		t->data = data;
		t->room = room;
	}
	if (len)
		memcpy(t->data + t->len, what, len);
	t->len += len;
}

void ckpt_text_put(struct ckpt_text *t, const char *what)
{
	ckpt_text_add(t, what, strlen(what));
}

void ckpt_text_json(struct ckpt_text *t, const char *what, size_t len)
{
	size_t plain = 0; /* from here on nothing was added yet */
	char code[8];

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)what[i];

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		ckpt_text_add(t, what + plain, i - plain);
		plain = i + 1;
		snprintf(code, sizeof(code), c < 0x20 ? "\\u%04x" : "\\%c", c);
		ckpt_text_put(t, code);
	}
	ckpt_text_add(t, what + plain, len - plain);
}

void ckpt_text_numbers(struct ckpt_text *t, const uint64_t *n, size_t nr)
{
	char digits[24];

	ckpt_text_put(t, "[");
	for (size_t i = 0; i < nr; i++) {
		snprintf(digits, sizeof(digits), "%s%llu", i ? "," : "", (unsigned long long)n[i]);
		ckpt_text_put(t, digits);
	}
	ckpt_text_put(t, "]");
}

void ckpt_text_free(struct ckpt_text *t)
{
	free(t->data);
	*t = (struct ckpt_text){0};
}
