/* SPDX-License-Identifier: MIT */
/*
 * Whole zip, HDF5 and safetensors files pass; each that is cut off, wherever, or lacks a part of
 * its skeleton is told.
 */
#include "tests/unit/unit.h"

#include "engine/content/structure.h"

/* A file in memory, exactly as large as it is, so that a sanitizer sees reads behind it. */
struct file {
	unsigned char *data;
	size_t size, room;
	size_t cut; /* what can be read of it: size, but where it shrinks under the check */
	int error;
	unsigned reads;
};

static ssize_t read_file(void *arg, void *buf, size_t len, uint64_t off)
{
	struct file *f = arg;

	f->reads++;
	if (f->error)
		return -f->error;
	assert_true(len <= f->size && off <= f->size - len); /* nothing beyond is asked for */
	if (off >= f->cut)
		return 0;
	if (len > f->cut - off)
		len = f->cut - off;
	memcpy(buf, f->data + off, len);
	return (ssize_t)len;
}

static void put(struct file *f, const void *data, size_t len)
{
	if (f->size + len > f->room) {
		f->room = 2 * (f->size + len);
		f->data = realloc(f->data, f->room);
		assert_non_null(f->data);
	}
	memcpy(f->data + f->size, data, len);
	f->size += len;
	f->cut = f->size;
}

static void put_text(struct file *f, const char *text)
{
	put(f, text, strlen(text));
}

/* Little-endian. */
static void put_number(struct file *f, uint64_t n, size_t len)
{
	unsigned char p[8];
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = (unsigned char)(n >> (8 * i));
	put(f, p, len);
}

static void put_zeros(struct file *f, size_t len)
{
	while (len--)
		put_number(f, 0, 1);
}

static void drop(struct file *f)
{
	free(f->data);
	*f = (struct file){0};
}

static int check(struct file *f, const char *name, size_t size, struct error *e)
{
	struct source src = {read_file, f};
	struct file exact = *f;
	int err;

	memset(e, 0, sizeof(*e));
	exact.data = malloc(size ? size : 1);
	exact.size = exact.cut = size;
	if (f->cut < size)
		exact.cut = f->cut;
	assert_non_null(exact.data);
	if (size)
		memcpy(exact.data, f->data, size);
	src.arg = &exact;
	err = structure_check(&src, name, size, e);
	assert_int_equal(err, -e->err);
	assert_true(!err == !e->text[0]);
	f->reads = exact.reads;
	free(exact.data);
	return err;
}

static void is_whole(struct file *f, const char *name)
{
	struct error e;

	if (check(f, name, f->size, &e))
		fail_msg("%s", e.text);
}

static void is_broken(struct file *f, const char *name, const char *why)
{
	struct error e;
	int err = check(f, name, f->size, &e);

	if (err != -EILSEQ)
		fail_msg("%d instead of: %s", err, why);
	assert_contains(e.text, why);
	assert_contains(e.text, name);
}

/* However much of its end is missing. Below @from bytes nothing tells what it is. */
static void no_part_is_whole(struct file *f, const char *name, size_t from)
{
	struct error e;
	size_t size;

	for (size = 0; size < f->size; size++) {
		int err = check(f, name, size, &e);

		if (err != (size < from ? 0 : -EILSEQ))
			fail_msg("%d with %zu of %zu bytes", err, size, f->size);
	}
}

/* --- zip --- */

/* What a test makes of it that is not as it should be. */
struct zip_kind {
	bool off64;	      /* only offsets in their 64-bit form */
	bool zip64;	      /* numbers of entries and end in their 64-bit forms */
	const char *comment;  /* or NULL */
	unsigned nr_entries;  /* 0: 3 */
	uint64_t more_packed; /* than there is */
	uint64_t more_local;  /* added to where the entries are */
	uint64_t more_off;    /* added to what the end says of the directory */
	uint64_t more_len, more_entries;
	size_t local, central; /* out: where the last of each is */
	size_t end64, end;     /* out */
	size_t directory;
};

static void put_entry(struct file *dir, struct zip_kind *k, uint64_t local, size_t len)
{
	uint64_t packed = len + k->more_packed;

	local += k->more_local;
	k->central = dir->size;
	put(dir, "PK\1\2", 4);
	put_zeros(dir, 16);
	put_number(dir, k->zip64 ? UINT32_MAX : packed, 4);
	put_number(dir, k->zip64 ? UINT32_MAX : len, 4);
	put_number(dir, 1, 2);					      /* name */
	put_number(dir, 13 + (k->zip64 ? 28 : k->off64 ? 12 : 0), 2); /* extra */
	put_number(dir, 2, 2);					      /* comment */
	put_zeros(dir, 8);
	put_number(dir, k->zip64 || k->off64 ? UINT32_MAX : local, 4);
	put_text(dir, "n");
	put(dir, "FB\10\0padding", 12); /* some field */
	if (k->zip64) {
		put(dir, "\1\0\30\0", 4);
		put_number(dir, len, 8);
		put_number(dir, packed, 8);
		put_number(dir, local, 8);
	} else if (k->off64) {
		put(dir, "\1\0\10\0", 4);
		put_number(dir, local, 8);
	}
	put_zeros(dir, 1); /* no whole field */
	put_text(dir, "co");
}

static void put_zip_end(struct file *f, struct zip_kind *k, unsigned nr, size_t len)
{
	uint64_t entries = nr + k->more_entries, off = k->directory + k->more_off;

	k->end64 = f->size;
	if (k->zip64) {
		put(f, "PK\6\6", 4);
		put_number(f, 44, 8);
		put_zeros(f, 12);
		put_number(f, entries, 8);
		put_number(f, entries, 8);
		put_number(f, len + k->more_len, 8);
		put_number(f, off, 8);
		put(f, "PK\6\7", 4);
		put_zeros(f, 4);
		put_number(f, k->end64, 8);
		put_number(f, 1, 4);
	}
	k->end = f->size;
	put(f, "PK\5\6", 4);
	put_zeros(f, 4);
	put_number(f, k->zip64 ? UINT16_MAX : entries, 2);
	put_number(f, k->zip64 ? UINT16_MAX : entries, 2);
	put_number(f, k->zip64 ? UINT32_MAX : len + k->more_len, 4);
	put_number(f, k->zip64 ? UINT32_MAX : off, 4);
	put_number(f, k->comment ? strlen(k->comment) : 0, 2);
	if (k->comment)
		put_text(f, k->comment);
}

static struct file make_zip(struct zip_kind *k)
{
	unsigned nr = k->nr_entries ? k->nr_entries : 3, i;
	struct file f = {0}, dir = {0};

	for (i = 0; i < nr; i++) {
		k->local = f.size;
		put(&f, "PK\3\4", 4);
		put_zeros(&f, 22);
		put_number(&f, 1, 2);
		put_number(&f, 3, 2);
		put_text(&f, "npad");
		put_zeros(&f, i % 7);
		put_entry(&dir, k, k->local, i % 7);
	}
	k->directory = f.size;
	put(&f, dir.data, dir.size);
	k->central += k->directory;
	put_zip_end(&f, k, nr, dir.size);
	drop(&dir);
	return f;
}

static void zip_is(struct zip_kind k, const char *why)
{
	struct file f = make_zip(&k);

	if (why)
		is_broken(&f, "dir/model.pt", why);
	else
		is_whole(&f, "dir/model.pt");
	drop(&f);
}

static void whole_zips_pass(void **state)
{
	static char comment[65536];
	static const char misleading[] = "PK\5\6xxxxxxxxxxxxxxxx\xff\xff"
					 "PK\5\6xxxxyyyy\1\1\1\1\1\1\1\1\1\1";
	struct zip_kind k = {0};
	struct file f;

	(void)state;
	memset(comment, 'c', sizeof(comment) - 1);
	zip_is((struct zip_kind){0}, NULL);
	zip_is((struct zip_kind){.comment = "hello"}, NULL);
	zip_is((struct zip_kind){.comment = comment}, NULL);
	zip_is((struct zip_kind){.comment = misleading}, NULL);
	zip_is((struct zip_kind){.zip64 = true}, NULL);
	zip_is((struct zip_kind){.zip64 = true, .comment = comment}, NULL);
	zip_is((struct zip_kind){.off64 = true}, NULL);
	zip_is((struct zip_kind){.nr_entries = 65535}, NULL); /* without zip64: just fits */
	/* What follows its end does no harm. */
	f = make_zip(&k);
	put_zeros(&f, 30000);
	is_whole(&f, "model.pt");
	drop(&f);
	/* A zip, but not at its beginning, is none of our business; nor one without files. */
	put_text(&f, "MZ");
	put(&f, "PK\3\4", 4);
	is_whole(&f, "setup.pt");
	drop(&f);
	put(&f, "PK\5\6", 4);
	is_whole(&f, "empty.pt");
	drop(&f);
	/* Nothing before the end that could be a locator. */
	put(&f, "PK\3\4", 4);
	put(&f, "PK\5\6", 4);
	put_zeros(&f, 18);
	is_whole(&f, "strange.pt");
	drop(&f);
}

static void cut_off_zips_are_told(void **state)
{
	struct zip_kind kinds[] = {{0}, {.zip64 = true}, {.comment = "comment"}};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct file f = make_zip(&kinds[i]);

		no_part_is_whole(&f, "model.pt", 4);
		drop(&f);
	}
}

static void zips_without_an_end_are_told(void **state)
{
	struct zip_kind k = {0};
	struct file f = make_zip(&k);

	(void)state;
	f.data[k.end] = 'x';
	is_broken(&f, "model.pt",
		  "zip: no end-of-central-directory record: the file was cut off or is still");
	f.data[k.end] = 'P';
	put_zeros(&f, 65536); /* too far from the end */
	is_broken(&f, "model.pt", "no end-of-central-directory record");
	drop(&f);
	put(&f, "PK\3\4", 4);
	put_zeros(&f, 200000); /* space made beforehand */
	is_broken(&f, "model.pt", "no end-of-central-directory record");
	drop(&f);
}

static void zips_with_a_wrong_end_are_told(void **state)
{
	static const char *const directory = "zip: its central directory is not where its end says";
	static const char *const entries = "or has not the entries that its end says";
	static const char *const end64 = "zip: the zip64 record at its end is missing or damaged";
	struct zip_kind k = {.zip64 = true};
	struct file f = make_zip(&k);
	int zip64;

	(void)state;
	for (zip64 = 0; zip64 < 2; zip64++) {
		zip_is((struct zip_kind){.zip64 = zip64, .more_off = 1}, directory);
		zip_is((struct zip_kind){.zip64 = zip64, .more_off = 1000}, directory);
		zip_is((struct zip_kind){.zip64 = zip64, .more_off = (uint64_t)-1}, "zip: its");
		zip_is((struct zip_kind){.zip64 = zip64, .more_len = 1}, directory);
		zip_is((struct zip_kind){.zip64 = zip64, .more_len = (uint64_t)-1}, entries);
		zip_is((struct zip_kind){.zip64 = zip64, .more_entries = 1}, entries);
		zip_is((struct zip_kind){.zip64 = zip64, .more_entries = (uint64_t)-1}, entries);
	}
	zip_is((struct zip_kind){.zip64 = true, .more_len = (uint64_t)1 << 63}, directory);
	zip_is((struct zip_kind){.zip64 = true, .more_entries = (uint64_t)1 << 63}, entries);
	f.data[k.end64] = 'x';
	is_broken(&f, "model.pt", end64);
	f.data[k.end64] = 'P';
	f.data[k.end - 20] = 'x'; /* no locator */
	is_broken(&f, "model.pt", end64);
	f.data[k.end - 20] = 'P';
	f.data[k.end - 5] ^= 0x80; /* which leads nowhere */
	is_broken(&f, "model.pt", end64);
	f.data[k.end - 5] ^= 0x80;
	f.data[k.end - 12]++; /* beside it */
	is_broken(&f, "model.pt", end64);
	f.data[k.end - 12] -= 2;
	is_broken(&f, "model.pt", end64);
	drop(&f);
}

static void zips_with_damaged_parts_are_told(void **state)
{
	static const char *const directory = "zip: its central directory is damaged";
	static const char *const outside = "lists an entry beyond what is there of the file";
	struct zip_kind k = {0};
	struct file f = make_zip(&k);
	uint64_t i;

	(void)state;
	f.data[k.central] = 'x';
	is_broken(&f, "model.pt", directory);
	f.data[k.central] = 'P';
	f.data[k.central + 32]++; /* its comment does not end */
	is_broken(&f, "model.pt", directory);
	f.data[k.central + 32]--;
	f.data[k.central + 49] += 2; /* nor the extra field */
	is_broken(&f, "model.pt", directory);
	f.data[k.central + 49] -= 2;
	f.data[k.local] = 0; /* a page that was never written */
	is_broken(&f, "model.pt",
		  "zip: an entry is not where its central directory says: a part of the file is");
	f.data[k.local] = 'P';
	f.data[k.local + 28]++; /* its data would reach into the directory */
	is_broken(&f, "model.pt", outside);
	f.data[k.local + 28]--;
	is_whole(&f, "model.pt");
	drop(&f);
	zip_is((struct zip_kind){.more_packed = 1000}, outside);
	zip_is((struct zip_kind){.more_packed = UINT32_MAX - 2}, outside);
	zip_is((struct zip_kind){.zip64 = true, .more_packed = UINT64_MAX - 2}, outside);
	for (i = 60; i < 400; i++) {
		zip_is((struct zip_kind){.off64 = true, .more_local = i}, "zip: ");
		zip_is((struct zip_kind){.off64 = true, .more_local = -i}, "zip: ");
	}
}

static void many_entries_cost_few_reads(void **state)
{
	struct zip_kind k = {.nr_entries = 60000};
	struct file f = make_zip(&k);

	(void)state;
	is_whole(&f, "model.pt");
	assert_in_range(f.reads, 10000, 17000);
	drop(&f);
}

/* --- HDF5 --- */

struct hdf5_kind {
	unsigned version;
	size_t width; /* of addresses; 0: 8 */
	unsigned flags;
	uint64_t base, end; /* end 0: all of the file */
	uint64_t root;	    /* 0: 200 */
	const char *header; /* of the root group; NULL: as it should be */
};

static struct file make_hdf5(const struct hdf5_kind *k)
{
	size_t width = k->width ? k->width : 8;
	struct file f = {0};

	put(&f, "\x89HDF\r\n\x1a\n", 8);
	put_number(&f, k->version, 1);
	if (k->version < 2) {
		put_zeros(&f, 4);
		put_number(&f, width, 1);
		put_number(&f, width, 1);
		put_number(&f, 0x100004, 5);
		put_number(&f, k->flags, 4);
		put_zeros(&f, k->version ? 4 : 0);
	} else {
		put_number(&f, width, 1);
		put_number(&f, width, 1);
		put_number(&f, k->flags, 1);
	}
	put_number(&f, k->base, width);
	put_number(&f, UINT64_MAX, width);
	put_number(&f, k->end ? k->end : k->base + 300, width);
	if (k->version < 2) {
		put_number(&f, UINT64_MAX, width);
		put_zeros(&f, width);
	}
	put_number(&f, k->root ? k->root : 200, width);
	put_zeros(&f, 200 - f.size);
	if (k->header)
		put(&f, k->header, 4);
	else
		put(&f, k->version < 2 ? "\1\0\2\0" : "OHDR", 4);
	put_zeros(&f, 300 - f.size);
	return f;
}

static void hdf5_is(struct hdf5_kind k, const char *why)
{
	for (k.version = 0; k.version < 4; k.version++) {
		struct file f = make_hdf5(&k);

		if (why)
			is_broken(&f, "dir/model.h5", why);
		else
			is_whole(&f, "dir/model.h5");
		drop(&f);
	}
}

static void whole_hdf5_files_pass(void **state)
{
	struct file f;

	(void)state;
	hdf5_is((struct hdf5_kind){0}, NULL);
	hdf5_is((struct hdf5_kind){.width = 4}, NULL);
	hdf5_is((struct hdf5_kind){.width = 2}, NULL);
	hdf5_is((struct hdf5_kind){.base = 512}, NULL); /* a user block that was taken away */
	hdf5_is((struct hdf5_kind){.end = 250}, NULL);
	f = make_hdf5(&(struct hdf5_kind){.version = 1, .flags = 3});
	is_whole(&f, "model.h5");
	drop(&f);
	f = make_hdf5(&(struct hdf5_kind){.version = 4, .end = 1, .flags = 1});
	is_whole(&f, "model.h5"); /* who knows */
	drop(&f);
}

static void cut_off_hdf5_files_are_told(void **state)
{
	struct hdf5_kind k = {0};

	(void)state;
	for (k.version = 0; k.version < 4; k.version++) {
		struct file f = make_hdf5(&k);

		no_part_is_whole(&f, "model.h5", 8);
		drop(&f);
	}
	hdf5_is((struct hdf5_kind){.end = 301}, "HDF5: it ends before the end that its superblock");
	hdf5_is((struct hdf5_kind){.end = UINT64_MAX}, "HDF5: it ends before the end");
}

static void damaged_or_open_hdf5_files_are_told(void **state)
{
	static const char *const damaged = "HDF5: its superblock is damaged, or the file was cut";
	struct hdf5_kind k = {.version = 2};

	(void)state;
	hdf5_is((struct hdf5_kind){.width = 3}, damaged);
	hdf5_is((struct hdf5_kind){.base = 512, .end = 400}, damaged);
	hdf5_is((struct hdf5_kind){.root = 297}, damaged);
	hdf5_is((struct hdf5_kind){.root = UINT64_MAX}, damaged);
	hdf5_is((struct hdf5_kind){.header = "\0\0\0"},
		"HDF5: it has no root group: its writer did not close it");
	for (; k.version < 4; k.version++) {
		struct file f = {0};

		for (k.flags = 1; k.flags < 6; k.flags *= 4) {
			f = make_hdf5(&k);
			is_broken(&f, "model.h5", "HDF5: it is marked as open for writing");
			drop(&f);
		}
	}
}

/* --- safetensors --- */

static struct file make_safetensors(const char *header, size_t data)
{
	struct file f = {0};

	put_number(&f, strlen(header), 8);
	put_text(&f, header);
	put_zeros(&f, data);
	return f;
}

static void safetensors_is(const char *header, size_t data, const char *why)
{
	struct file f = make_safetensors(header, data);

	if (why)
		is_broken(&f, "dir/model.safetensors", why);
	else
		is_whole(&f, "dir/model.safetensors");
	drop(&f);
}

#define T(name, begin, end) \
	"\"" name "\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[" #begin "," #end "]}"
#define METADATA "\"__metadata__\":{\"format\":\"pt\",\"}{\\\"\":\"\\\\\"}"

static void whole_safetensors_pass(void **state)
{
	char *big = malloc(300000), *at = big;
	int i;

	(void)state;
	safetensors_is("{}", 0, NULL);
	safetensors_is("{}   \n", 0, NULL);
	safetensors_is("{" T("a", 0, 8) "}", 8, NULL);
	safetensors_is("{" METADATA "}", 0, NULL);
	safetensors_is("{" METADATA "," T("a", 0, 8) "," T("b", 8, 9) "}", 9, NULL);
	safetensors_is(" {\n " T("b", 8, 16) " ,\t" T("a", 0, 8) " } ", 16, NULL);
	safetensors_is("{" T("a", 0, 8) "," T("e", 8, 8) "," T("f", 0, 0) "," T("b", 8, 9) "}", 9,
		       NULL);
	safetensors_is("{" T("a\\\"}{", 0, 8) "," T("__metadata__x", 8, 9) "}", 9, NULL);
	safetensors_is("{\"s\":{\"dtype\":\"F8_NEW\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
		       NULL);
	/* Larger than what is read at once. */
	at += sprintf(at, "{\"__metadata__\":{\"x\":\"");
	memset(at, 'x', 100000);
	at += sprintf(at + 100000, "\"}") + 100000;
	for (i = 0; i < 2000; i++)
		at += sprintf(at,
			      ",\"%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
			      i, 1999 - i, 2000 - i);
	sprintf(at, "}");
	safetensors_is(big, 2000, NULL);
	free(big);
}

static void cut_off_safetensors_are_told(void **state)
{
	struct file f = make_safetensors("{" METADATA "," T("a", 0, 8) "," T("b", 8, 90) "}", 90);

	(void)state;
	no_part_is_whole(&f, "model.safetensors", 0);
	is_whole(&f, "model.safetensors.tmp"); /* not its name */
	drop(&f);
	is_broken(&f, ".safetensors", "safetensors: it does not begin with the length of a header");
	put_zeros(&f, 8);
	is_broken(&f, "x.safetensors", "safetensors: it does not begin with the length");
	put_zeros(&f, 8000); /* space made beforehand */
	is_broken(&f, "x.safetensors", "safetensors: it does not begin with the length");
	drop(&f);
	put_number(&f, 100000001, 8);
	is_broken(&f, "x.safetensors", "safetensors: it does not begin with the length");
	drop(&f);
	put_number(&f, 3, 8);
	put_text(&f, "{}");
	is_broken(&f, "x.safetensors", "safetensors: it ends within its header");
	drop(&f);
}

static void damaged_safetensors_headers_are_told(void **state)
{
	static const char *const bad[] = {
		"x",
		"[]",
		"{",
		"{}x",
		"{}{}",
		"{,}",
		"{" T("a", 0, 8) ",}",
		"{" T("a", 0, 8) " " T("b", 8, 8) "}",
		"{" T("a", 0, 8) "]",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1}",
		"{\"a\":[]}",
		"{\"a\" {}}",
		("{" METADATA),
		"{\"a\":{\"x\"}}",
		"{\"a\":{\"x\":01}}",
		"{\"a",
		"{\"a\\",
		"{\"a\\\"}",
		"{\"a\":{\"",
		"{\"__metadata__\":5}",
		"{\"__metadata__\":{\"a\":\"b}}",
		"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,8]}}",
		"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,99999999999999999999]}}",
		"{a:{}}",
	};
	struct file f = {0};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		safetensors_is(bad[i], 8, "safetensors: its header is damaged");
	/* No tensor is described by so much text. */
	put_number(&f, 70010, 8);
	put_text(&f, "{\"a\":{\"b\":\"");
	while (f.size < 8 + 70007)
		put_text(&f, "x");
	put_text(&f, "\"}}");
	is_broken(&f, "a.safetensors", "safetensors: its header is damaged");
	drop(&f);
}

static void odd_tensors_are_told(void **state)
{
	static const char *const bad[] = {
		"{}",
		"{\"shape\":[1],\"data_offsets\":[0,8]}",
		"{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,8]}",
		"{\"dtype\":\"U8\",\"data_offsets\":[0,8]}",
		"{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,8]}",
		"{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,8]}",
		"{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,8]}",
		"{\"dtype\":\"U8\",\"shape\":[1]}",
		"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":8}",
		"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[]}",
		"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8]}",
		"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,4,8]}",
		"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-8,8]}",
		"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[\"0\",8]}",
		"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,0]}",
	};
	char header[200];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(header, sizeof(header), "{\"a\":%s}", bad[i]);
		safetensors_is(header, 8, "lists a tensor without dtype, shape or data_offsets");
	}
}

static void data_must_be_covered_exactly(void **state)
{
	static const char *const cover = "tensors overlap, or leave a part of the file out";
	static const char *const outside = "safetensors: its header lists a tensor beyond its end";

	(void)state;
	safetensors_is("{}", 1, cover);
	safetensors_is("{" T("a", 0, 8) "}", 9, cover);
	safetensors_is("{" T("a", 1, 8) "}", 8, cover);
	safetensors_is("{" T("a", 0, 4) "," T("b", 5, 8) "}", 8, cover);
	safetensors_is("{" T("a", 0, 5) "," T("b", 4, 8) "}", 8, cover);
	safetensors_is("{" T("a", 0, 8) "," T("b", 0, 8) "}", 8, cover);
	safetensors_is("{" T("a", 0, 8) "," T("b", 4, 4) "}", 8, cover);
	safetensors_is("{" T("a", 0, 9) "}", 8, outside);
	safetensors_is("{" T("a", 0, 9223372036854775807) "}", 8, outside);
}

/* --- any --- */

static void other_files_are_whole(void **state)
{
	struct file f = {0};

	(void)state;
	is_whole(&f, "empty");
	is_whole(&f, "");
	put_text(&f, "x");
	is_whole(&f, "a.pt");
	put_text(&f, "\x80\x02 a pickle as torch.save made it once");
	is_whole(&f, "a.pt");
	drop(&f);
}

static void unreadable_files_are_told(void **state)
{
	struct zip_kind k = {0};
	struct file files[] = {make_zip(&k), make_hdf5(&(struct hdf5_kind){.version = 2}),
			       make_safetensors("{" T("a", 0, 8) "}", 8)};
	struct error e;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		const char *name = i == 2 ? "a.safetensors" : "a.pt";

		files[i].error = EACCES;
		assert_int_equal(check(&files[i], name, files[i].size, &e), -EACCES);
		assert_contains(e.text, name);
		assert_contains(e.text, "Permission denied");
		files[i].error = 0;
		/* It shrinks while we look: wherever that shows. */
		for (files[i].cut = 0; files[i].cut < 8; files[i].cut++)
			assert_int_equal(check(&files[i], name, files[i].size, &e), -EIO);
		drop(&files[i]);
	}
}

/* Files that torch, numpy, h5py and safetensors made are seeds of the fuzzer. */
static void real_files_pass_and_no_part_of_them(void **state)
{
	static const struct {
		const char *name;
		size_t from;
	} real[] = {{"torch", 4},  {"npz", 4},	  {"hdf5-0", 8},
		    {"hdf5-2", 8}, {"hdf5-3", 8}, {"safetensors", 0}};
	const char *top = getenv("SRC");
	char path[PATH_MAX], buf[8192];
	size_t i;

	(void)state;
	if (!top)
		skip();
	for (i = 0; i < sizeof(real) / sizeof(real[0]); i++) {
		const char *name = real[i].from ? real[i].name : "a.safetensors";
		struct file f = {0};
		int fd;

		snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/structure/%s", top,
			 real[i].name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		put(&f, buf, (size_t)read(fd, buf, sizeof(buf)));
		close(fd);
		is_whole(&f, name);
		no_part_is_whole(&f, name, real[i].from);
		drop(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_zips_pass),
		cmocka_unit_test(cut_off_zips_are_told),
		cmocka_unit_test(zips_without_an_end_are_told),
		cmocka_unit_test(zips_with_a_wrong_end_are_told),
		cmocka_unit_test(zips_with_damaged_parts_are_told),
		cmocka_unit_test(many_entries_cost_few_reads),
		cmocka_unit_test(whole_hdf5_files_pass),
		cmocka_unit_test(cut_off_hdf5_files_are_told),
		cmocka_unit_test(damaged_or_open_hdf5_files_are_told),
		cmocka_unit_test(whole_safetensors_pass),
		cmocka_unit_test(cut_off_safetensors_are_told),
		cmocka_unit_test(damaged_safetensors_headers_are_told),
		cmocka_unit_test(odd_tensors_are_told),
		cmocka_unit_test(data_must_be_covered_exactly),
		cmocka_unit_test(other_files_are_whole),
		cmocka_unit_test(unreadable_files_are_told),
		cmocka_unit_test(real_files_pass_and_no_part_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
