// The certificates of a cluster's nodes: what an authority issues, lists and revokes, and which identities are read.
#include "actors/transport/certificates.hpp"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "actors/transport/certificate_authority.hpp"
#include "tests/actors/transport_fixture.hpp"

namespace cudal1 {
namespace {

namespace fs = std::filesystem;

TEST(certificates, an_issued_identity_can_be_read_and_listed) {
  const cluster c;
  const identity gpu = c.issue("gpu-7");
  EXPECT_EQ(gpu.name, "gpu-7");
  EXPECT_EQ(gpu.role, peer_role::agent);
  EXPECT_EQ(c.coordinator().role, peer_role::coordinator);
  c.issue("laptop", peer_role::client);

  const auto listed = certificate_authority::open(c.data)->list();
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->size(), 3u);
  EXPECT_EQ((*listed)[0].name, "head");
  EXPECT_EQ((*listed)[1].name, "gpu-7");
  EXPECT_EQ((*listed)[2].role, peer_role::client);
  EXPECT_EQ((*listed)[1].serial.size(), 32u);
  EXPECT_NE((*listed)[1].serial, (*listed)[2].serial);
  const auto days =
      std::chrono::seconds((*listed)[1].expires_unix_s) - std::chrono::system_clock::now().time_since_epoch();
  EXPECT_NEAR(std::chrono::duration<double>(days).count() / 86400, 3 * 365, 2);
}

TEST(certificates, the_files_are_their_owners_only) {
  const cluster c;
  c.issue("gpu-7");
  EXPECT_EQ(fs::status(c.data).permissions(), fs::perms::owner_all);
  for (const auto& file : fs::directory_iterator(c.data))
    EXPECT_EQ(file.status().permissions(), fs::perms::owner_read | fs::perms::owner_write) << file.path();
}

TEST(certificates, a_folder_has_one_authority) {
  const cluster c;
  EXPECT_EQ(certificate_authority::create(c.data, "other").error().code, errc::already_exists);
  EXPECT_EQ(certificate_authority::open(c.folder / "none").error().code, errc::not_found);
}

TEST(certificates, names_are_checked) {
  const cluster c;
  for (const std::string& name :
       {std::string(), std::string("GPU"), std::string("a b"), std::string("a/b"), std::string("a\nb"),
        std::string(64, 'a'), std::string("-b"), std::string("b-"), std::string("a\0b", 3)})
    EXPECT_EQ(c.authority.issue(name, peer_role::agent).error().code, errc::invalid_argument) << name;
  EXPECT_TRUE(c.authority.issue(std::string(63, 'a'), peer_role::agent));
  EXPECT_EQ(c.authority.issue("head-2", peer_role::coordinator).error().code, errc::invalid_argument);
}

TEST(certificates, of_a_name_that_is_no_longer_legal_can_be_revoked) {
  const cluster c;
  const std::string serial(32, 'a'), path = c.data + "/issued";
  write_text(path, read_text(path) + "-b agent " + serial + " 4102444800\n");
  ASSERT_TRUE(c.authority.list());
  EXPECT_EQ(c.authority.list()->at(1).name, "-b");
  ASSERT_TRUE(c.authority.revoke("-b"));
  EXPECT_TRUE(revocations(c.data).is_revoked(serial));
  EXPECT_TRUE(c.authority.issue("b", peer_role::agent));
}

TEST(certificates, a_name_has_one_certificate_until_it_is_revoked_or_expired) {
  const cluster c;
  const auto long_ago = std::chrono::system_clock::now() - std::chrono::hours(4 * 365 * 24);
  ASSERT_TRUE(c.authority.issue("gpu-7", peer_role::agent, long_ago));
  ASSERT_TRUE(c.authority.issue("gpu-7", peer_role::agent));
  EXPECT_EQ(c.authority.issue("gpu-7", peer_role::agent).error().code, errc::already_exists);
  EXPECT_EQ(c.authority.revoke("gpu-8").error().code, errc::not_found);
  ASSERT_TRUE(c.authority.revoke("gpu-7"));
  ASSERT_TRUE(c.authority.revoke("gpu-7")) << "again";
  ASSERT_TRUE(c.authority.issue("gpu-7", peer_role::agent));
  const auto listed = c.authority.list();
  ASSERT_EQ(listed->size(), 4u);
  EXPECT_TRUE((*listed)[1].revoked);
  EXPECT_TRUE((*listed)[2].revoked);
  EXPECT_FALSE((*listed)[3].revoked);
}

TEST(certificates, revocations_are_seen_without_a_restart) {
  const cluster c;
  c.issue("gpu-7");
  const std::string serial = c.authority.list()->at(1).serial;
  revocations revoked(c.data);
  EXPECT_FALSE(revoked.is_revoked(serial));
  ASSERT_TRUE(c.authority.revoke("gpu-7"));
  EXPECT_TRUE(revoked.is_revoked(serial));
  EXPECT_FALSE(revoked.is_revoked(c.authority.list()->at(0).serial));
}

TEST(certificates, an_unreadable_list_of_revocations_leaves_the_last_one_in_force) {
  const cluster c;
  c.issue("gpu-7");
  const std::string head = c.authority.list()->at(0).serial, gpu = c.authority.list()->at(1).serial;
  ASSERT_TRUE(c.authority.revoke("gpu-7"));
  revocations seen(c.data), never_seen(c.data);
  EXPECT_TRUE(seen.is_revoked(gpu));
  write_text(c.data + "/revoked", "no serial number\n");
  EXPECT_TRUE(seen.is_revoked(gpu));
  EXPECT_FALSE(seen.is_revoked(head));
  EXPECT_TRUE(never_seen.is_revoked(head)) << "without a list nobody is admitted";
  fs::remove(c.data + "/revoked");
  EXPECT_TRUE(seen.is_revoked(gpu));
  EXPECT_EQ(c.authority.issue("gpu-8", peer_role::agent).error().code, errc::not_found);
}

// What read_identity says of a text in a file of that mode.
error problem_with(const cluster& c, const std::string& text, mode_t mode = 0600) {
  const std::string path = c.folder / "tried.pem";
  write_text(path, text, mode);
  const auto read = read_identity(path);
  return read ? error{errc::infrastructure, "no problem"} : read.error();
}

TEST(certificates, an_identity_file_with_a_problem_is_refused_with_a_sentence) {
  const cluster c, other;
  const identity a = c.issue("a"), b = c.issue("b"), foreign = other.issue("a");
  EXPECT_EQ(problem_with(c, a.authority + a.certificate + a.key).message, "no problem") << "in any order";
  EXPECT_EQ(problem_with(c, a.key + b.certificate + a.authority).message,
            "the private key in " + c.folder / "tried.pem" + " is not the certificate's");
  EXPECT_EQ(problem_with(c, a.key + a.certificate + foreign.authority).message,
            "the certificate in " + c.folder / "tried.pem" + " is not signed by the authority in it");
  EXPECT_EQ(problem_with(c, a.key + a.certificate + a.authority, 0640).message,
            "others can read " + c.folder / "tried.pem" + ": chmod 600 " + c.folder / "tried.pem");
  EXPECT_EQ(problem_with(c, a.certificate + a.authority).message, c.folder / "tried.pem" + " has no private key");
  EXPECT_EQ(problem_with(c, a.key + a.authority).message, c.folder / "tried.pem" + " has no certificate");
  EXPECT_EQ(problem_with(c, a.key + a.certificate).message, c.folder / "tried.pem" + " has no authority's certificate");
  EXPECT_EQ(problem_with(c, a.key + a.certificate + b.certificate + a.authority).code, errc::parse_error);
  EXPECT_EQ(problem_with(c, "not PEM").code, errc::parse_error);
  EXPECT_EQ(problem_with(c, a.key.substr(0, 60) + a.certificate + a.authority).code, errc::parse_error);
  EXPECT_EQ(read_identity(c.folder / "none.pem").error().code, errc::not_found);
}

TEST(certificates, an_identity_is_read_only_while_it_is_valid) {
  const cluster c;
  const std::string path = c.folder / "old.pem";
  const auto now = std::chrono::system_clock::now();
  write_text(path, *c.authority.issue("old", peer_role::agent));
  EXPECT_TRUE(read_identity(path, now - std::chrono::hours(23)));
  const auto early = read_identity(path, now - std::chrono::hours(25));
  ASSERT_FALSE(early);
  EXPECT_NE(early.error().message.find("is not valid yet"), std::string::npos) << early.error().message;
  const auto late = read_identity(path, now + std::chrono::hours(24 * 366 * 3));
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("has expired"), std::string::npos) << late.error().message;
}

}  // namespace
}  // namespace cudal1
