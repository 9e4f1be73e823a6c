"""AWS's SDK for Python, unchanged, against an S3 server: python3 s3.py ENDPOINT ACCESS_KEY SECRET_KEY.

Each function below `main` is one property; what must hold is what AWS documents.
"""

import datetime
import io
import sys
import traceback
import urllib.error
import urllib.request

import boto3
import botocore.crt.auth
from boto3.s3.transfer import TransferConfig
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

BUCKET = "clients"
MIB = 1 << 20
BYTES = bytes(i * 7 % 251 for i in range(300_000))
CHECKSUMS = ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]


def client(secret=None, key=None, **config):
    return boto3.client(
        "s3",
        endpoint_url=sys.argv[1],
        aws_access_key_id=key or sys.argv[2],
        aws_secret_access_key=secret or sys.argv[3],
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=20, **config),
    )


def main():
    s3, failed = client(), []
    for prove in PROPERTIES:
        s3.create_bucket(Bucket=BUCKET)
        try:
            prove(s3)
        except Exception:
            failed.append(prove.__name__)
            traceback.print_exc()
        empty(s3)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def empty(s3):
    for upload in s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for entry in page.get("Contents", []):
            s3.delete_object(Bucket=BUCKET, Key=entry["Key"])
    s3.delete_bucket(Bucket=BUCKET)


def code(call, *arguments, **keywords):
    """The error code of a call that must fail."""
    try:
        call(*arguments, **keywords)
    except ClientError as error:
        return error.response["Error"]["Code"]
    raise AssertionError(f"{call.__name__} {keywords} passed")


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def put(s3, key, body=b"v", **keywords):
    return s3.put_object(Bucket=BUCKET, Key=key, Body=body, **keywords)["ETag"]


def get(s3, key, **keywords):
    return s3.get_object(Bucket=BUCKET, Key=key, **keywords)["Body"].read()


def objects_come_back_with_their_metadata(s3):
    put(s3, "k", BYTES, Metadata={"job": "42"}, ContentType="application/x-state")
    head = s3.head_object(Bucket=BUCKET, Key="k")
    found = (head["ContentLength"], head["Metadata"], head["ContentType"])
    equal(found, (len(BYTES), {"job": "42"}, "application/x-state"))
    equal(get(s3, "k"), BYTES)
    equal(get(s3, "k", Range="bytes=5-9"), BYTES[5:10])
    equal(code(get, s3, "absent"), "NoSuchKey")
    equal(code(s3.get_object, Bucket="no-such-bucket", Key="k"), "NoSuchBucket")
    equal(code(s3.create_bucket, Bucket=BUCKET), "BucketAlreadyOwnedByYou")
    equal(code(s3.delete_bucket, Bucket=BUCKET), "BucketNotEmpty")


def every_checksum_is_checked_kept_and_answered(s3):
    for name in CHECKSUMS:
        field, key = f"Checksum{name}", f"sum-{name}"
        value = s3.put_object(Bucket=BUCKET, Key=key, Body=BYTES, ChecksumAlgorithm=name)[field]
        # The SDK compares it with what it reads.
        answer = s3.get_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")
        equal((answer["Body"].read(), answer[field], answer["ChecksumType"]), (BYTES, value, "FULL_OBJECT"))
        equal(s3.head_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")[field], value)
        equal(code(put, s3, "wrong", b"other bytes", **{field: value}), "BadDigest")
    equal(code(get, s3, "wrong"), "NoSuchKey")


def signatures_and_clocks_are_checked(s3):
    put(s3, "k")
    equal(code(get, client(secret="wrong"), "k"), "SignatureDoesNotMatch")
    equal(code(get, client(key="nobody"), "k"), "InvalidAccessKeyId")
    equal(code(get, client(signature_version=UNSIGNED), "k"), "AccessDenied")
    for minutes in (-16, 16):
        with clock(minutes):
            equal(code(get, s3, "k"), "RequestTimeTooSkewed")
    with clock(-14):
        equal(get(s3, "k"), b"v")


class clock:
    """A client whose clock is wrong by that many minutes."""

    def __init__(self, minutes):
        self.offset = datetime.timedelta(minutes=minutes)

    def __enter__(self):
        self.real = botocore.crt.auth.get_current_datetime
        botocore.crt.auth.get_current_datetime = lambda **keywords: self.real(**keywords) + self.offset

    def __exit__(self, *_):
        botocore.crt.auth.get_current_datetime = self.real


def presigned_requests_are_let_in_until_they_expire(s3):
    s3 = client(signature_version="s3v4")
    url = s3.generate_presigned_url("put_object", {"Bucket": BUCKET, "Key": "k"}, 60)
    urllib.request.urlopen(urllib.request.Request(url, b"by URL", method="PUT"), timeout=20)
    url = s3.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "k"}, 60)
    equal(urllib.request.urlopen(url, timeout=20).read(), b"by URL")
    with clock(-2):
        late = s3.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "k"}, 60)
    for url, expected in [(late, b"AccessDenied"), (url.replace("/k?", "/other?"), b"SignatureDoesNotMatch")]:
        try:
            urllib.request.urlopen(url, timeout=20)
            raise AssertionError("it was let in")
        except urllib.error.HTTPError as error:
            assert error.code == 403 and expected in (body := error.read()), body


def conditions_hold_on_reads_writes_copies_and_deletes(s3):
    etag = put(s3, "k", IfNoneMatch="*")
    source = f"{BUCKET}/k"
    copy = lambda key, **keywords: s3.copy_object(Bucket=BUCKET, Key=key, CopySource=source, **keywords)
    delete = lambda key, **keywords: s3.delete_object(Bucket=BUCKET, Key=key, **keywords)
    equal(code(put, s3, "k", IfNoneMatch="*"), "PreconditionFailed")
    equal(code(put, s3, "k", IfMatch='"0"'), "PreconditionFailed")
    equal(code(put, s3, "absent", IfMatch=etag), "NoSuchKey")
    equal(code(get, s3, "k", IfMatch='"0"'), "PreconditionFailed")
    equal(code(get, s3, "k", IfNoneMatch=etag), "304")
    equal(code(copy, "to", CopySourceIfMatch='"0"'), "PreconditionFailed")
    equal(code(copy, "to", CopySourceIfNoneMatch=etag), "PreconditionFailed")
    equal(copy("to", CopySourceIfMatch=etag)["CopyObjectResult"]["ETag"], etag)
    equal(code(delete, "k", IfMatch='"0"'), "PreconditionFailed")
    equal(put(s3, "k", b"w", IfMatch=etag) == etag, False)
    equal(code(delete, "k", IfMatch=etag), "PreconditionFailed")
    delete("k", IfMatch="*")
    delete("k")
    equal(code(get, s3, "k"), "NoSuchKey")


def a_refused_put_is_answered_with_its_body_drained(s3):
    etag = put(s3, "k")
    body = bytes(24 * MIB)
    equal(code(put, s3, "k", body, IfNoneMatch="*"), "PreconditionFailed")
    equal(code(s3.put_object, Bucket="no-such-bucket", Key="k", Body=body), "NoSuchBucket")
    equal(code(put, client(secret="wrong"), "k", body), "SignatureDoesNotMatch")
    equal(code(put, client(key="nobody"), "k", body), "InvalidAccessKeyId")
    equal(code(put, s3, "k" * 1025, body), "KeyTooLongError")
    part = lambda **keywords: s3.upload_part(Bucket=BUCKET, Key="k", PartNumber=1, Body=body, **keywords)
    equal(code(part, UploadId="none"), "NoSuchUpload")
    equal(s3.head_object(Bucket=BUCKET, Key="k")["ETag"], etag)


def lists_of_both_versions_hold_every_key(s3):
    keys = sorted(["a", "a/b", "a/b/c", "b", "with space+%", "ключ/鍵"] + [f"many/{i:04}" for i in range(1200)])
    for key in keys:
        put(s3, key)
    for version in ("list_objects", "list_objects_v2"):
        pages = lambda **keywords: s3.get_paginator(version).paginate(Bucket=BUCKET, **keywords)
        equal(sorted(entry["Key"] for page in pages() for entry in page["Contents"]), keys)
        small = list(pages(Delimiter="/", PaginationConfig={"PageSize": 1}))
        found = [entry["Key"] for page in small for entry in page.get("Contents", [])]
        groups = [group["Prefix"] for page in small for group in page.get("CommonPrefixes", [])]
        equal((found, groups), (["a", "b", "with space+%"], ["a/", "many/", "ключ/"]))
        equal([entry["Key"] for page in pages(Prefix="a/b") for entry in page["Contents"]], ["a/b", "a/b/c"])
    listed = {"Objects": [{"Key": key} for key in keys[:999]] + [{"Key": "absent"}]}
    answer = s3.delete_objects(Bucket=BUCKET, Delete=listed)
    equal((len(answer["Deleted"]), answer.get("Errors", [])), (1000, []))
    equal(s3.list_objects_v2(Bucket=BUCKET)["KeyCount"], len(keys) - 999)


def a_body_already_begun_is_finished_from_its_own_snapshot(s3):
    old = BYTES * 60
    put(s3, "k", old)
    body = s3.get_object(Bucket=BUCKET, Key="k")["Body"]
    begun = body.read(1000)
    put(s3, "k", b"new")
    s3.delete_object(Bucket=BUCKET, Key="k")
    equal(begun + body.read() == old, True)


def multipart_uploads_are_listed_completed_once_and_repeated(s3):
    big = BYTES * 40
    in_parts = TransferConfig(5 * MIB, multipart_chunksize=5 * MIB)
    s3.upload_fileobj(io.BytesIO(big), BUCKET, "big", Config=in_parts)
    head = s3.head_object(Bucket=BUCKET, Key="big", PartNumber=2)
    equal((head["PartsCount"], head["ContentLength"]), (3, 5 * MIB))
    equal(get(s3, "big") == big, True)
    s3.copy({"Bucket": BUCKET, "Key": "big"}, BUCKET, "copied", Config=in_parts)
    equal(get(s3, "copied") == big, True)

    for key in ("dir/m", "m"):
        upload = {"Bucket": BUCKET, "Key": key}
        upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
        parts = []
        for number, body in [(1, big[: 5 * MIB]), (2, b"end")]:
            etag = s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"]
            parts.append({"PartNumber": number, "ETag": etag})
    equal([entry["Key"] for entry in s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]], ["dir/m", "m"])
    listed = s3.get_paginator("list_parts").paginate(**upload, PaginationConfig={"PageSize": 1})
    equal([part["PartNumber"] for page in listed for part in page["Parts"]], [1, 2])

    def complete(parts, **keywords):
        return s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **keywords)

    equal(code(complete, parts[::-1]), "InvalidPartOrder")
    equal(code(complete, [{"PartNumber": 1, "ETag": '"0"'}]), "InvalidPart")
    etag = complete(parts, IfNoneMatch="*")["ETag"]
    equal(get(s3, "m"), big[: 5 * MIB] + b"end")
    # A client that lost the answer asks again.
    equal(complete(parts, IfNoneMatch="*")["ETag"], etag)
    equal(code(complete, parts[:1]), "NoSuchUpload")
    s3.delete_object(Bucket=BUCKET, Key="m")
    equal(complete(parts)["ETag"], etag)
    equal(code(get, s3, "m"), "NoSuchKey")
    [other] = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    upload = {"Bucket": BUCKET, "Key": other["Key"], "UploadId": other["UploadId"]}
    s3.abort_multipart_upload(**upload)
    equal(code(complete, parts), "NoSuchUpload")


def multipart_uploads_have_checksums(s3):
    for name in CHECKSUMS:
        field = f"Checksum{name}"
        created = s3.create_multipart_upload(Bucket=BUCKET, Key=name, ChecksumAlgorithm=name)
        upload = {"Bucket": BUCKET, "Key": name, "UploadId": created["UploadId"]}
        part = s3.upload_part(**upload, PartNumber=1, Body=BYTES, ChecksumAlgorithm=name)
        parts = [{"PartNumber": 1, "ETag": part["ETag"], field: part[field]}]
        [listed] = s3.list_parts(**upload)["Parts"]
        equal(listed[field], part[field])
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        equal(get(s3, name, ChecksumMode="ENABLED"), BYTES)


PROPERTIES = [
    objects_come_back_with_their_metadata,
    every_checksum_is_checked_kept_and_answered,
    signatures_and_clocks_are_checked,
    presigned_requests_are_let_in_until_they_expire,
    conditions_hold_on_reads_writes_copies_and_deletes,
    a_refused_put_is_answered_with_its_body_drained,
    lists_of_both_versions_hold_every_key,
    a_body_already_begun_is_finished_from_its_own_snapshot,
    multipart_uploads_are_listed_completed_once_and_repeated,
    multipart_uploads_have_checksums,
]

main()
